"""The journal: several writers, torn lines, full disks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nemo_runs.durable.journal import Journal, read_journal
from nemo_runs.errors import DiskFullError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".gym_events.jsonl"


def test_events_are_lines_of_compact_json_in_order(path: Path) -> None:
    journal = Journal(path)
    journal.append({"event": "a", "text": "ü\u2028\n", "n": None})
    journal.append({"event": "b", "odd": "\udcff"})
    assert path.read_bytes() == (
        b'{"event":"a","text":"\\u00fc\\u2028\\n","n":null}\n{"event":"b","odd":"\\udcff"}\n'
    )
    assert read_journal(path) == [
        {"event": "a", "text": "ü\u2028\n", "n": None},
        {"event": "b", "odd": "\udcff"},
    ]


def test_a_missing_journal_is_empty(path: Path) -> None:
    assert read_journal(path) == []


def test_a_line_torn_at_any_byte_neither_counts_nor_swallows_the_next(tmp_path: Path) -> None:
    line = b'{"event":"torn","n":1}\n'
    for cut in range(len(line)):
        path = tmp_path / f"{cut}"
        path.write_bytes(b'{"event":"first"}\n' + line[:cut])
        whole = [{"event": "first"}]
        assert read_journal(path) == whole
        Journal(path).append({"event": "next"})
        # only its newline may be missing: then the event was written
        whole += [{"event": "torn", "n": 1}] if cut == len(line) - 1 else []
        assert read_journal(path) == [*whole, {"event": "next"}]


def test_lines_that_are_no_events_are_left_out(path: Path) -> None:
    path.write_bytes(b'\n[1]\n"x"\n\xff\xfe\n{"event":"a"}\nnull\n{"a":\n')
    assert read_journal(path) == [{"event": "a"}]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, Path("x")])
def test_what_json_cannot_hold_is_refused_and_writes_nothing(path: Path, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Journal(path).append({"value": value})
    assert not path.exists()


def test_events_of_several_processes_stay_whole(path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from nemo_runs.durable.journal import Journal\n"
        "journal = Journal(pathlib.Path(sys.argv[1]))\n"
        "for number in range(60): journal.append({'by': sys.argv[2], 'n': number, 'pad': 'x' * 3000})\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-S", "-c", program, path, f"{n}"], env=SOURCE) for n in range(3)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    events = read_journal(path)
    assert len(events) == 180
    for by in "012":
        assert [event["n"] for event in events if event["by"] == by] == list(range(60))


def test_a_full_disk_is_said_and_the_journal_goes_on_afterwards(small_disk: Path) -> None:
    path, ballast = small_disk / "events", small_disk / "ballast"
    ballast.write_bytes(b"x" * 57_344)
    journal = Journal(path)
    journal.append({"n": 1})
    with pytest.raises(DiskFullError, match="events: could not be written"):
        journal.append({"pad": "x" * 30_000})
    ballast.unlink()
    journal.append({"n": 2})
    assert read_journal(path) == [{"n": 1}, {"n": 2}]


SOURCE = {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}
