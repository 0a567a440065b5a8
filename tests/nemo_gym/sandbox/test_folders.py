from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym.sandbox import folders


def test_files_are_written_below_the_folder_and_replace_what_is_there(tmp_path: Path) -> None:
    folders.write_files(tmp_path, {"a": b"1", "b/c/d": b"2"})
    folders.write_files(tmp_path, {"a": b"3", "b/e": b""})
    found = {
        str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    }
    assert found == {"a": b"3", "b/c/d": b"2", "b/e": b""}


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", ".", "a\0b"])
def test_paths_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="does not name a file below /work"):
        folders.write_files(tmp_path, {name: b""})


def test_no_link_that_a_program_left_is_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("keep me")
    work = tmp_path / "work"
    work.mkdir()
    (work / "file").symlink_to(tmp_path / "outside/secret")
    (work / "folder").symlink_to(tmp_path / "outside")
    folders.write_files(work, {"file": b"new", "folder/secret": b"new"})
    (work / "again").symlink_to(tmp_path / "outside")
    assert folders.used_bytes(work, beyond=10**6) < 10 * folders.ENTRY
    folders.remove(work)
    assert not work.exists()
    assert (tmp_path / "outside/secret").read_text() == "keep me"


def test_a_folder_stays_where_a_file_of_its_name_is_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory"):
        folders.write_files(tmp_path, {"a": b""})


def test_a_nesting_deeper_than_any_path_and_folders_without_permissions_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(top)
        for _ in range(60):
            os.mkdir("f" * 100)
            os.chdir("f" * 100)
        Path("file").touch()
    finally:
        os.fchdir(before)
        os.close(before)
    (top / "closed").mkdir()
    (top / "closed/inner").mkdir(mode=0)
    (top / "closed").chmod(0)
    folders.remove(top)
    folders.remove(top)
    assert not top.exists()


def test_what_cannot_be_counted_counts_as_more(tmp_path: Path) -> None:
    assert folders.used_bytes(tmp_path, beyond=10**9) == 0
    (tmp_path / "/".join(["a"] * folders.DEEPEST)).mkdir(parents=True)
    assert folders.used_bytes(tmp_path, beyond=10**9) == folders.DEEPEST * folders.ENTRY
    (tmp_path / "/".join(["a"] * (folders.DEEPEST + 1))).mkdir(parents=True)
    assert folders.used_bytes(tmp_path, beyond=10**9) == 10**9 + 1
