"""Files of rows: reading, torn tails, and the one writer."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nemo_runs.durable.files import DiskFullError, RowAppender, read_lines, repair_tail
from nemo_runs.errors import RunsError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def test_only_a_newline_ends_a_row(path: Path) -> None:
    path.write_bytes("a\r\nb\u2028c\x0bd\x85\n\n\x00e\n".encode())
    assert list(read_lines(path)) == [b"a\r", "b\u2028c\x0bd\x85".encode(), b"", b"\x00e"]


def test_a_tail_without_a_newline_is_not_a_row(path: Path) -> None:
    path.write_bytes(b"a\nb")
    assert list(read_lines(path)) == [b"a"]
    path.write_bytes(b"b")
    assert list(read_lines(path)) == []
    path.write_bytes(b"")
    assert list(read_lines(path)) == []


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_rows_are_whole_whatever_the_size_of_a_read(path: Path, chunk: int) -> None:
    numbers = random.Random(chunk)
    rows = [b"x" * numbers.randrange(20) for _ in range(50)]
    path.write_bytes(b"".join(row + b"\n" for row in rows) + b"tail")
    assert list(read_lines(path, chunk=chunk)) == rows


def test_a_missing_file_is_an_error_when_read(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(read_lines(path))


def test_a_file_that_a_crash_cut_at_any_byte_is_repaired_to_its_whole_rows(tmp_path: Path) -> None:
    content = b'{"a":1}\n{"b":22}\n{"c":3}\n'
    for cut in range(len(content) + 1):
        path = tmp_path / f"{cut}"
        path.write_bytes(content[:cut])
        whole = content[: content[:cut].rfind(b"\n") + 1]
        torn = repair_tail(path)
        assert path.read_bytes() == whole
        assert (torn is None) == (whole == content[:cut])
        if torn:
            assert torn.aside.read_bytes() == content[len(whole) : cut]
            assert (torn.path, torn.offset, torn.size) == (path, len(whole), cut - len(whole))
        assert repair_tail(path) is None


def test_a_repaired_tail_is_never_overwritten_by_the_next(path: Path) -> None:
    for tail in (b"one", b"two", b"three"):
        with path.open("ab") as file:
            file.write(b"row\n" + tail)
        repair_tail(path)
    asides = [path.with_name(f"rollouts.jsonl.torn-{number}") for number in (1, 2, 3)]
    assert [aside.read_bytes() for aside in asides] == [b"one", b"two", b"three"]


def test_a_long_tail_and_one_of_zeros_are_repaired(path: Path) -> None:
    for tail in (b"x" * 300_000, b"\x00" * 5000):
        path.write_bytes(b"row\n" + tail)
        torn = repair_tail(path)
        assert torn is not None
        assert torn.aside.read_bytes() == tail
        assert path.read_bytes() == b"row\n"


def test_nothing_is_repaired_where_nothing_is(path: Path) -> None:
    assert repair_tail(path) is None
    assert not path.exists()
    path.write_bytes(b"")
    assert repair_tail(path) is None


def test_the_tail_stays_where_it_is_when_it_cannot_be_set_aside(small_disk: Path) -> None:
    path = small_disk / "rows"
    path.write_bytes(b"row\n" + b"t" * 40_000)
    with pytest.raises(DiskFullError):
        repair_tail(path)
    assert path.read_bytes() == b"row\n" + b"t" * 40_000


def test_rows_are_appended_behind_what_is_there_under_any_name(odd_folder: Path) -> None:
    path = odd_folder / odd_folder.name
    path.write_bytes(b"a\n")
    writer = RowAppender(path)
    writer.append(b"b")
    writer.append(b"")
    assert (writer.rows, writer.offset) == (2, 5)
    writer.close()
    assert list(read_lines(path)) == [b"a", b"b", b""]


def test_a_row_is_in_the_file_at_once_and_by_one_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RowAppender(path)
    writes: list[int] = []
    original = os.write

    def count(descriptor: int, data: bytes) -> int:
        writes.append(len(data))
        return original(descriptor, data)

    monkeypatch.setattr(os, "write", count)
    writer.append(b"x" * 3_000_000)
    assert path.stat().st_size == 3_000_001
    writer.close()
    assert writes == [3_000_001]


def test_a_row_that_holds_a_newline_is_refused(path: Path) -> None:
    writer = RowAppender(path)
    with pytest.raises(RunsError, match="newline"):
        writer.append(b"a\nb")
    writer.close()
    assert path.read_bytes() == b""


def test_rows_become_durable_at_most_once_a_second_and_at_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    synced: list[float] = []
    monkeypatch.setattr(os, "fdatasync", lambda _: synced.append(now[0]))
    writer = RowAppender(path, clock=lambda: now[0])
    for moment in (100.2, 100.9, 101.0, 101.5, 101.9, 102.1):
        now[0] = moment
        writer.append(b"x")
    now[0] = 102.2
    writer.sync()
    writer.append(b"y")
    writer.close()
    writer.close()
    assert synced == [101.0, 102.1, 102.2]


def test_a_full_disk_takes_a_row_back_and_later_rows_are_whole(small_disk: Path) -> None:
    path = small_disk / "rows"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 40_000)
    writer = RowAppender(path)
    rows = 0
    with contextlib.suppress(DiskFullError):
        for rows in range(100):  # noqa: B007 - how many fitted
            writer.append(b"r" * 999)
    assert 10 < rows < 60
    with pytest.raises(DiskFullError, match="free some space"):
        writer.append(b"r" * 999)
    assert path.stat().st_size == writer.offset == rows * 1000
    ballast.unlink()
    writer.append(b"after")
    writer.close()
    assert list(read_lines(path)) == [b"r" * 999] * rows + [b"after"]


def test_rows_that_the_system_threw_away_when_it_found_no_room_are_written_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As network file systems do it: ``write`` succeeds, the sync says once that there is no room."""
    writer = RowAppender(path, sync_every=1e9)
    writer.append(b"durable")
    writer.sync()
    for row in (b"one", b"two"):
        writer.append(row)

    def lose(descriptor: int) -> None:
        os.ftruncate(descriptor, len(b"durable\n") + 2)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lose)
    with pytest.raises(DiskFullError, match="quota"):
        writer.sync()
    monkeypatch.setattr(os, "fdatasync", real)
    writer.append(b"three")
    writer.close()
    assert path.read_bytes() == b"durable\none\ntwo\nthree\n"


def test_a_row_that_a_file_size_limit_cuts_is_taken_back(path: Path) -> None:
    program = (
        "import resource, sys, pathlib\n"
        "from nemo_runs.durable.files import DiskFullError, RowAppender\n"
        "writer = RowAppender(pathlib.Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500))\n"
        "try:\n"
        "    while True: writer.append(b'x' * 999)\n"
        "except DiskFullError as error: print(error)\n"
        "writer.append(b'short'); writer.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{path}: could not be written (only a part of a row fitted)")
    assert list(read_lines(path)) == [b"x" * 999] * 2 + [b"short"]


def test_half_a_row_is_not_taken_back_when_somebody_else_wrote_behind_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RowAppender(path)
    original = os.write

    def cut(descriptor: int, data: bytes) -> int:
        written = original(descriptor, data[:3])
        with path.open("ab") as other:
            other.write(b"theirs\n")
        return written

    monkeypatch.setattr(os, "write", cut)
    with pytest.raises(RunsError, match="somebody else"):
        writer.append(b"mine")
    monkeypatch.undo()
    assert path.read_bytes() == b"mintheirs\n"
    with pytest.raises(RunsError, match="somebody else"):
        writer.append(b"mine")
    writer.close()


def test_a_writer_notices_that_its_file_was_replaced_or_removed(path: Path) -> None:
    writer = RowAppender(path)
    assert not writer.superseded()
    other = path.with_name("new")
    other.write_bytes(b"")
    other.replace(path)
    assert writer.superseded()
    writer.append(b"late")
    writer.close()
    assert path.read_bytes() == b""
    writer = RowAppender(path)
    path.unlink()
    assert writer.superseded()
    writer.close()


def test_kill_9_loses_at_most_the_row_in_flight(path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from nemo_runs.durable.files import RowAppender\n"
        "writer = RowAppender(pathlib.Path(sys.argv[1]))\n"
        "for number in range(10**9):\n"
        "    writer.append(b'%09d' % number + b'x' * 5000)\n"
        "    if number % 50 == 0: print(number, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    with writer:
        assert writer.stdout
        for _ in range(5):
            told = int(writer.stdout.readline())
        time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
    repair_tail(path)
    rows = list(read_lines(path))
    assert [int(row[:9]) for row in rows] == list(range(len(rows)))
    assert len(rows) > told
    assert {len(row) for row in rows} == {5009}
