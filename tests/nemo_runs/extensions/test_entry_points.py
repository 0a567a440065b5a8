"""Entries of other packages: found without an import, and refused in a sentence that names the package."""

import sys
import threading
import zipfile

import pytest

from nemo_runs.errors import EntryPointError
from nemo_runs.extensions import entry_points
from nemo_runs.extensions.entry_points import EntryGroup
from nemo_runs.extensions.metadata import InstalledEntry

GROUP = EntryGroup("toys.things", "thing", {"ours": "own.things:ours"})


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "site"
    made.mkdir()
    return made


@pytest.fixture
def site(folder, monkeypatch):
    """Installs a package into ``folder``."""

    def install(package, lines, modules=None, folder=folder, kind="dist-info"):
        metadata = folder / f"{package.replace('-', '_')}-1.0.{kind}"
        metadata.mkdir(parents=True)
        (metadata / "entry_points.txt").write_text(f"[{GROUP.name}]\n" + "\n".join(lines) + "\n")
        for name, text in (modules or {}).items():
            (folder / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)

    monkeypatch.syspath_prepend(folder)
    return install


def found(folder):
    return entry_points.offers(GROUP, [str(folder)])


def test_only_our_section_is_read(site, folder):
    site("mixed", ["# no = not:one", "a = mixed:x [extra]", " = y:z", "broken", "", "[other]", "b = mixed:y"])
    assert found(folder) == [InstalledEntry("a", "mixed:x", "mixed")]


def test_an_archive_on_the_path_is_read_too(tmp_path):
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toys-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
        archive.writestr("toys-1.0.dist-info/entry_points.txt", f"[{GROUP.name}]\na = packed:x\n")
    assert entry_points.offers(GROUP, [str(path)]) == [InstalledEntry("a", "packed:x", "toys")]


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_a_package_is_named_as_it_is_installed(site, folder, kind):
    site("toy-box", ["a = toy_box:x"], kind=kind)
    assert found(folder)[0].distribution == "toy-box"


def test_of_a_package_that_is_there_twice_the_first_counts(site, folder, tmp_path):
    site("toys", ["a = new:x"])
    site("toys", ["a = old:x", "gone = old:y"], folder=tmp_path / "other")
    folders = [str(folder), str(tmp_path / "other")]
    assert entry_points.offers(GROUP, folders) == [InstalledEntry("a", "new:x", "toys")]


def test_a_name_that_two_packages_offer_is_refused_for_those_who_ask_for_it(site, folder):
    site("toys", ["a = toys:x", "b = toys:y"])
    site("others", ["a = others:x"])
    assert entry_points.find(GROUP, "b", [str(folder)]) == InstalledEntry("b", "toys:y", "toys")
    with pytest.raises(EntryPointError) as refused:
        entry_points.find(GROUP, "a", [str(folder)])
    sentence = "the thing 'a' is offered by several packages (others, toys; group toys.things)"
    assert str(refused.value).startswith(sentence)
    assert entry_points.clashes(GROUP, [str(folder)]) == [str(refused.value)]
    assert entry_points.names(GROUP, [str(folder)]) == ["a", "b"]


def test_the_same_thing_from_two_packages_is_one(site, folder):
    site("toys", ["a = toys:x"])
    site("toys-extra", ["a = toys:x"])
    assert entry_points.find(GROUP, "a", [str(folder)]).target == "toys:x"


def test_a_name_that_is_built_in_is_refused_with_the_package_that_takes_it(site, folder):
    assert entry_points.find(GROUP, "ours", [str(folder)]) is None
    site("toys", ["ours = toys:x"])
    with pytest.raises(
        EntryPointError, match=r"the thing 'ours' is built in, and .* package \(toys; group toys"
    ):
        entry_points.find(GROUP, "ours", [str(folder)])
    assert len(entry_points.clashes(GROUP, [str(folder)])) == 1


@pytest.mark.parametrize(
    ("package", "line"), [("vendored", "ours = own.things:ours"), ("nemo-baton", "ours = older.place:ours")]
)
def test_what_is_built_in_may_be_declared(site, folder, package, line):
    site(package, [line])
    assert entry_points.find(GROUP, "ours", [str(folder)]) is None


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        ("raise RuntimeError('another machine')", "thing_x:a", "RuntimeError: another machine"),
        ("import sys; sys.exit('bye')", "thing_x:a", "SystemExit: bye"),
        ("import sys; sys.exit()", "thing_x:a", "SystemExit"),
        ("class Stop(BaseException): pass\nraise Stop('now')", "thing_x:a", "Stop: now"),
        ("b = 1", "thing_x:a", "AttributeError: module 'thing_x' has no attribute 'a'"),
        ("a = 1", "thing_y:a", "ModuleNotFoundError: No module named 'thing_y'"),
        ("a = 1", "thing_x:a", "thing_x:a must be a str, and is of the type int"),
        ("a = 1", "thing_x", "thing_x must be a str, and is of the type module"),
        ("a = (", "thing_x:a", "SyntaxError: '(' was never closed (thing_x.py, line 1)"),
    ],
)
def test_what_does_not_load_is_one_sentence_with_entry_and_package(site, folder, text, target, reason):
    site("toys", [f"a = {target}"], {"thing_x": text})
    with pytest.raises(EntryPointError) as refused:
        entry_points.load(GROUP, found(folder)[0], str)
    sentence = (
        f"the thing 'a' of the package toys cannot be loaded ({reason}); repair that package, or remove it"
    )
    assert str(refused.value) == sentence


def test_an_interrupt_goes_through(site, folder):
    site("toys", ["a = thing_i:a"], {"thing_i": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        entry_points.load(GROUP, found(folder)[0])


def test_a_thing_within_a_class_is_found(site, folder):
    site("toys", ["a = thing_n:Box.a"], {"thing_n": "class Box:\n    a = 'inner'\n"})
    assert entry_points.load(GROUP, found(folder)[0], str) == "inner"


def test_an_import_that_takes_long_is_named_while_it_does(site, folder, monkeypatch):
    said = threading.Event()

    class Stderr:
        text = ""

        def write(self, text):
            self.text += text
            said.set()

        def flush(self):
            pass

    monkeypatch.setattr(entry_points, "SLOW_SECONDS", 0.001)
    monkeypatch.setattr(entry_points, "said_event", said, raising=False)
    monkeypatch.setattr(sys, "stderr", Stderr())
    waiting = "from nemo_runs.extensions import entry_points\na = entry_points.said_event.wait(60)\n"
    site("toys", ["a = thing_s:a"], {"thing_s": waiting})
    assert entry_points.load(GROUP, found(folder)[0]) is True
    assert sys.stderr.text.startswith("still loading the thing 'a' of the package toys")


def test_what_the_interpreter_has_besides_can_be_left_out(site, tmp_path, monkeypatch):
    folder = tmp_path / "lib" / "site-packages"
    site("toys", ["a = toys:x"], folder=folder)
    site("nemo-baton", ["b = own:x"], folder=folder)
    monkeypatch.delenv(entry_points.WITHOUT, raising=False)
    assert entry_points.names(GROUP, [str(folder)]) == ["a", "b"]
    monkeypatch.setenv(entry_points.WITHOUT, "1")
    assert entry_points.names(GROUP, [str(folder)]) == ["b"]
