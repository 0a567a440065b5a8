"""The configuration file: modes, whole replacement, damage named by its line."""

from __future__ import annotations

import os
import pwd
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nemo_helix_plugin.config import file
from nemo_helix_plugin.errors import ContextFileError

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=30)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=12,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.dictionaries(st.text(max_size=20), VALUES, max_size=5))
@pytest.mark.slow
def test_whatever_is_written_is_read_again(tmp_path: Path, content: dict[str, object]) -> None:
    path = tmp_path / "config.yaml"
    file.write(path, content)
    assert file.read(path) == content


def test_folder_and_file_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "nhx" / "config.yaml"
    old = os.umask(0)
    try:
        file.write(path, {"a": 1})
    finally:
        os.umask(old)
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    with file.editing(path) as content:
        content["a"] = 2
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)
    assert [entry.name for entry in path.parent.iterdir() if not entry.name.endswith(".lock")] == [
        "config.yaml"
    ]


def test_a_folder_that_is_not_ours_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    file.write(folder / "config.yaml", {})
    assert mode(folder) == 0o755


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    target, link = tmp_path / "dotfiles" / "nhx.yaml", tmp_path / "config.yaml"
    target.write_text("a: 1\n")
    link.symlink_to(target)
    with file.editing(link) as content:
        content["b"] = 2
    assert link.is_symlink()
    assert file.read(target) == {"a": 1, "b": 2}


def test_an_error_inside_an_edit_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    file.write(path, {"a": 1})
    with pytest.raises(ZeroDivisionError), file.editing(path) as content:
        content["a"] = 1 / 0
    assert file.read(path) == {"a": 1}


def test_edits_at_the_same_time_all_arrive(tmp_path: Path) -> None:
    path = tmp_path / "nhx" / "config.yaml"

    def add(number: int) -> None:
        with file.editing(path) as content:
            content[f"key{number}"] = number

    threads = [threading.Thread(target=add, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert file.read(path) == {f"key{number}": number for number in range(20)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: 1\nb: [1, 2\nc: 3\n", r"config.yaml, line 3: this is not YAML"),
        (b"a: 1\n\tb: 2\n", r"config.yaml, line 2: this is not YAML"),
        (b"- a\n- b\n", r"config.yaml, line 1: a mapping is expected"),
        (b"just words", r"config.yaml, line 1: a mapping is expected"),
        (b"a: \xff\xfe", r"config.yaml is not text in UTF-8"),
        (b"a: \x01", r"config.yaml: this is not YAML \(unacceptable character"),
        (b"a: !!python/object:os.system x\n", r"config.yaml, line 1: this is not YAML"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ContextFileError, match=words) as caught:
        file.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "\n# nothing\n", "---\n"])
def test_a_file_that_says_nothing_is_empty(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(content)
    assert file.read(path) == {}


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ContextFileError, match="cannot be read"):
        file.read(tmp_path / "config.yaml")
    (tmp_path / "file").write_text("")
    with pytest.raises(ContextFileError, match="cannot be written"):
        file.write(tmp_path / "file" / "config.yaml", {})


def test_the_file_is_where_the_environment_says() -> None:
    home, account = Path("/home/ada"), Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert file.default_path({}) == account / ".config" / "nhx" / "config.yaml"
    assert file.default_path({"HOME": "/home/ada"}) == home / ".config" / "nhx" / "config.yaml"
    assert file.default_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/nhx/config.yaml")
    relative = {"XDG_CONFIG_HOME": "relative", "HOME": "/home/ada"}
    assert file.default_path(relative) == home / ".config" / "nhx" / "config.yaml"
    given = {"XDG_CONFIG_HOME": "/x", "NHX_CONFIG_FILE": "~/c.yaml", "HOME": "/home/ada"}
    assert file.default_path(given) == Path.home() / "c.yaml"
