"""`nemo`: commands come from installed packages, errors become sentences."""

import re
import sys

import click
import pytest

from nemo_helix_plugin import errors
from nemo_helix_plugin.cli import main, outside_commands, program
from nemo_runs.extensions import entry_points


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder that stands for site-packages; `install` puts a command package into it."""

    class Packages:
        folder = tmp_path / "site"

        def install(self, distribution, module, source, entry_points):
            (self.folder / f"{module}.py").write_text(source)
            metadata = self.folder / f"{distribution}-1.0.dist-info"
            metadata.mkdir()
            (metadata / "entry_points.txt").write_text(entry_points)

    made = Packages()
    made.folder.mkdir()
    monkeypatch.syspath_prepend(made.folder)
    offers = entry_points.offers
    monkeypatch.setattr(
        entry_points, "offers", lambda group, _folders=None: offers(group, [str(made.folder)])
    )
    return made


TOY = """
import click
{first}

@click.command()
@click.option("--fail")
def toy(fail):
    "A toy."
    if fail == "bug":
        raise ValueError("sad")
    if fail == "file":
        open("/nowhere/at/all")
    if fail == "known":
        from nemo_helix_plugin.errors import NemoError
        raise NemoError("the toy is broken")
    click.echo("played")
    return 75 if fail == "pause" else None
"""


def test_help_lists_the_own_groups(packages, capsys):
    assert main._status(["--help"]) == errors.EXIT_DONE
    assert re.search(r"jobs +Create, follow, pause, resume and rerun jobs\.", capsys.readouterr().out)


def test_a_mistyped_command_is_a_usage_error_with_the_one_that_was_meant(packages, capsys):
    assert main._status(["jbos"]) == errors.EXIT_USAGE
    sentence = "nemo: No such command 'jbos' (did you mean 'jobs'?). See 'nemo --help'.\n"
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("pause first", " (did you mean 'nemo jobs pause'?)"),
        ("view", " (did you mean 'nemo config view'?)"),
        ("config show", " (did you mean 'view'?)"),
        ("config list", " (did you mean 'view'?)"),
        ("jobs describe x", " (did you mean 'get'?)"),
        ("config rerun", " (did you mean 'nemo jobs rerun'?)"),
        ("token", " (did you mean 'nemo auth token'?)"),
        ("checkpoints list", " (did you mean 'nemo jobs checkpoints'?)"),
        ("upload x", " (did you mean one of: 'nemo files upload', 'nemo models upload'?)"),
        ("jobs create-it-all", ""),
        ("help", " (did you mean 'nemo --help'?)"),
        ("version", " (did you mean 'nemo --version'?)"),
        ("jobs stop x", " (did you mean 'cancel'?)"),
        ("jobs kill x", " (did you mean 'cancel'?)"),
        ("jobs rm x", " (did you mean 'delete'?)"),
        ("jobs status", " (did you mean 'get-status'?)"),
        ("train", " (did you mean 'customization'?)"),
        ("customization lora", " (did you mean 'sft'?)"),
        ("secrets set a", " (did you mean 'create'?)"),
        ("sweeps create", " (did you mean 'nemo customization sft --sweep'?)"),
        ("config set base_url http://x", " (did you mean '--base-url'?)"),
        ("jobs list -f jsn", " (did you mean 'json'?)"),
        ("jobs watch x --timout 5", " (did you mean '--timeout'?)"),
    ],
)
def test_a_command_that_another_group_has_is_named(packages, capsys, words, meant):
    packages.install(
        "broken", "broken_import", "raise SystemError", "[nemo.commands]\nxyz = broken_import:x\n"
    )
    assert main._status(words.split()) == errors.EXIT_USAGE
    assert f"{meant}. See 'nemo" in capsys.readouterr().err


def test_an_installed_package_cannot_take_the_place_of_an_own_group(packages, capsys):
    packages.install("bad", "bad_jobs", "raise SystemError", "[nemo.commands]\njobs = bad_jobs:x\n")
    assert main._status(["jobs", "--help"]) == errors.EXIT_LOCAL
    sentence = "nemo: the command 'jobs' is built in, and so named is one of another package (bad; group "
    assert capsys.readouterr().err.startswith(sentence)
    assert main._status(["config", "--help"]) == main._status(["--help"]) == errors.EXIT_DONE


def test_a_command_that_two_packages_bring_is_refused(packages, capsys):
    for package in ("one", "two"):
        packages.install(
            package, f"{package}_x", "raise SystemError", f"[nemo.commands]\nx = {package}_x:x\n"
        )
    assert main._status(["--help"]) == errors.EXIT_DONE
    assert re.search("x +from one, two", capsys.readouterr().out)
    assert main._status(["x"]) == errors.EXIT_LOCAL
    assert "the command 'x' is offered by several packages (one, two; group" in capsys.readouterr().err


def test_an_installed_command_is_listed_without_being_imported(packages, capsys):
    packages.install(
        "toy_pkg", "toy_unimported", "raise SystemError", "[nemo.commands]\ntoy = toy_unimported:toy\n"
    )
    assert main._status(["--help"]) == errors.EXIT_DONE
    assert re.search("toy +from toy-pkg", capsys.readouterr().out)


def test_an_installed_command_runs_and_its_number_is_the_exit_status(packages, capsys):
    packages.install("toy_pkg", "toy_runs", TOY.format(first=""), "[nemo.commands]\ntoy = toy_runs:toy\n")
    assert main._status(["toy"]) == errors.EXIT_DONE
    assert main._status(["toy", "--fail", "pause"]) == errors.EXIT_PAUSED
    assert capsys.readouterr().out == "played\nplayed\n"


@pytest.mark.parametrize(
    ("failure", "status", "sentence"),
    [
        ("known", errors.EXIT_LOCAL, "nemo: the toy is broken.\n"),
        ("bug", errors.EXIT_LOCAL, "nemo: unexpected ValueError: sad. Set NEMO_DEBUG=1 to see where.\n"),
        ("file", errors.EXIT_LOCAL, "nemo: No such file or directory (/nowhere/at/all).\n"),
    ],
)
def test_an_error_of_a_command_is_one_sentence(packages, capsys, failure, status, sentence):
    packages.install("toy_pkg", "toy_fails", TOY.format(first=""), "[nemo.commands]\ntoy = toy_fails:toy\n")
    assert main._status(["toy", "--fail", failure]) == status
    assert capsys.readouterr().err == sentence


def test_a_broken_package_breaks_only_its_own_command(packages, capsys):
    packages.install("toy_pkg", "toy_whole", TOY.format(first=""), "[nemo.commands]\ntoy = toy_whole:toy\n")
    packages.install(
        "sad_pkg", "sad", "import no_such_module_anywhere", "[nemo.commands]\nsad = sad:command\n"
    )
    assert main._status(["toy"]) == errors.EXIT_DONE
    assert main._status(["sad"]) == errors.EXIT_LOCAL
    sentence = "'sad' of the package sad-pkg cannot be loaded (ModuleNotFoundError: No module named"
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
    ],
)
def test_whatever_an_import_raises_names_the_package(packages, capsys, text, reason):
    packages.install("sad_pkg", "sad_import", text, "[nemo.commands]\nsad = sad_import:command\n")
    sys.modules.pop("sad_import", None)
    assert main._status(["sad"]) == errors.EXIT_LOCAL
    assert f"'sad' of the package sad-pkg cannot be loaded ({reason})" in capsys.readouterr().err


def test_an_entry_point_that_is_no_command_is_refused(packages):
    packages.install("odd_pkg", "odd", "thing = 3", "[nemo.commands]\nodd = odd:thing\n")
    with pytest.raises(errors.CommandLoadError, match=r"odd:thing must be a Command, and is of the type int"):
        outside_commands.load("odd", ())


def test_an_interrupt_ends_with_its_own_status(monkeypatch, capsys):
    def interrupt(**_kwargs):
        raise click.exceptions.Abort

    monkeypatch.setattr(program.nemo, "main", interrupt)
    assert main._status([]) == errors.EXIT_INTERRUPTED
    assert capsys.readouterr().err == "nemo: interrupted.\n"


def test_no_command_at_all_prints_help_as_a_usage_error(packages, capsys):
    assert main._status([]) == errors.EXIT_USAGE
    assert capsys.readouterr().err.startswith("Usage: nemo")
