"""Taking rows over from a writer that may still be alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_runs.durable.files import DiskFullError, RowAppender, adopt_rows, read_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def good(row: bytes) -> tuple[list[bytes], bytes]:
    return ([row], b"") if row.startswith(b"ok") else ([], row)


def test_valid_rows_move_to_a_new_inode_and_the_others_aside(path: Path) -> None:
    path.write_bytes(b"ok1\nbad\nok2\n\nno3")
    path.chmod(0o640)
    old = path.stat().st_ino
    adopted = adopt_rows(path, good, label="7.0")
    assert (adopted.kept, adopted.damaged) == (2, [(2, b"bad"), (5, b"no3")])
    assert adopted.torn == 3
    assert path.read_bytes() == b"ok1\nok2\n"
    assert path.stat().st_ino != old
    assert path.stat().st_mode & 0o777 == 0o640
    assert adopted.superseded == path.with_name("rollouts.jsonl.superseded-7.0")
    assert adopted.superseded.stat().st_ino == old
    assert adopted.superseded.read_bytes() == b"ok1\nbad\nok2\n\nno3"
    assert path.with_name("rollouts.jsonl.damaged-7.0").read_bytes() == b"bad\nno3\n"


def test_a_zombie_writes_into_the_old_file_and_can_tell(path: Path) -> None:
    zombie = RowAppender(path)
    zombie.append(b"ok1")
    adopted = adopt_rows(path, good, label="2")
    zombie.append(b"ok-late")
    assert zombie.superseded()
    zombie.close()
    assert list(read_lines(path)) == [b"ok1"]
    assert adopted.superseded is not None
    assert list(read_lines(adopted.superseded)) == [b"ok1", b"ok-late"]


def test_adopting_again_with_the_same_label_overwrites_nothing(path: Path) -> None:
    path.write_bytes(b"ok1\nbad1\n")
    adopt_rows(path, good, label="2")
    with path.open("ab") as file:
        file.write(b"bad2\n")
    again = adopt_rows(path, good, label="2")
    assert again.superseded == path.with_name("rollouts.jsonl.superseded-2-2")
    assert again.superseded.read_bytes() == b"ok1\nbad2\n"
    assert path.with_name("rollouts.jsonl.damaged-2").read_bytes() == b"bad1\n"
    assert path.with_name("rollouts.jsonl.damaged-2-2").read_bytes() == b"bad2\n"


def test_a_missing_file_has_nothing_to_adopt_and_an_empty_one_is_fenced(path: Path) -> None:
    assert adopt_rows(path, good, label="1").superseded is None
    assert os.listdir(path.parent) == []
    zombie = RowAppender(path)
    assert adopt_rows(path, good, label="1").kept == 0
    assert zombie.superseded()
    zombie.close()


def test_each_row_is_judged_once_and_in_order_so_that_duplicates_can_be_told(path: Path) -> None:
    path.write_bytes(b"ok1\nok2\nok1\n")
    seen: list[bytes] = []

    def first(row: bytes) -> tuple[list[bytes], bytes]:
        seen.append(row)
        return ([row], b"") if seen.count(row) == 1 else ([], row)

    assert adopt_rows(path, first, label="1").damaged == [(3, b"ok1")]
    assert seen == [b"ok1", b"ok2", b"ok1"]


def test_under_any_name(odd_folder: Path) -> None:
    path = odd_folder / odd_folder.name
    path.write_bytes(b"ok\nbad\n")
    adopted = adopt_rows(path, good, label="1")
    assert (adopted.kept, path.read_bytes()) == (1, b"ok\n")


def test_without_hard_links_a_copy_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path.write_bytes(b"ok1\n")
    for suffix in ("superseded-1", "superseded-1-2"):
        adopted = adopt_rows(path, good, label="1")
        assert adopted.superseded == path.with_name(f"rollouts.jsonl.{suffix}")
        assert adopted.superseded.read_bytes() == b"ok1\n"


def test_a_full_disk_leaves_everything_as_it_was(small_disk: Path) -> None:
    path = small_disk / "rows"
    content = b"ok" * 20_000 + b"\n"
    path.write_bytes(content)
    inode = path.stat().st_ino
    with pytest.raises(DiskFullError):
        adopt_rows(path, good, label="1")
    assert path.read_bytes() == content
    assert path.stat().st_ino == inode
    assert os.listdir(small_disk) == ["rows"]


# `os` is watched inside the child, which kills itself at the n-th call that changes the folder
KILLED_AT = """
import os, pathlib, signal, sys
left = int(sys.argv[2])
def dying(name):
    call = getattr(os, name)
    def wrapped(*args, **kwargs):
        global left
        left -= 1
        if left == 0: os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    setattr(os, name, wrapped)
for name in ("fsync", "link", "replace", "rename", "open", "close", "unlink"): dying(name)
from nemo_runs.durable.files import adopt_rows
def good(row): return ([row], b"") if row.startswith(b"ok") else ([], row)
adopt_rows(pathlib.Path(sys.argv[1]), good, label="1")
"""


@pytest.mark.slow
def test_kill_9_at_every_step_leaves_a_whole_file_and_loses_no_row(tmp_path: Path) -> None:
    old = b"ok1\nbad\nok2\n"
    for step in range(1, 40):
        path = tmp_path / f"{step}" / "rows"
        path.parent.mkdir()
        path.write_bytes(old)
        argv = [sys.executable, "-S", "-c", KILLED_AT, str(path), str(step)]
        done = subprocess.run(argv, env=_source(), check=False)
        assert path.read_bytes() in {old, b"ok1\nok2\n"}
        kept = b"".join(other.read_bytes() for other in path.parent.iterdir())
        assert b"bad" in kept
        if done.returncode == 0:
            assert step > 8
            return
        assert done.returncode == -signal.SIGKILL
        assert adopt_rows(path, good, label="2").kept == 2
    pytest.fail("the child was killed at every step; the number of steps has grown")


def _source() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}


def test_a_line_may_hold_several_rows_and_a_row_may_lack_its_newline(path: Path) -> None:
    path.write_bytes(b"ok1|ok2|junk\nok3")

    def split(line: bytes) -> tuple[list[bytes], bytes]:
        pieces = line.split(b"|")
        return [piece for piece in pieces if piece.startswith(b"ok")], b"".join(pieces[2:])

    adopted = adopt_rows(path, split, label="1")
    assert (adopted.kept, adopted.damaged, adopted.torn) == (3, [(1, b"junk")], 0)
    assert path.read_bytes() == b"ok1\nok2\nok3\n"


def test_an_old_file_that_nobody_writes_to_need_not_be_kept(path: Path) -> None:
    path.write_bytes(b"ok1\nok2\n")
    adopted = adopt_rows(path, lambda row: ([row][: row == b"ok2"], b""), label="1", keep_old=False)
    assert (adopted.kept, adopted.superseded, path.read_bytes()) == (1, None, b"ok2\n")
    assert os.listdir(path.parent) == [path.name]
