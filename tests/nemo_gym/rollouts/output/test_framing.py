"""What stands around rows costs none of them, and what is damaged takes no neighbour with it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output import framing, index_reader, rows
from nemo_gym.rollouts.output.attempt_index import AttemptIndex
from nemo_gym.rollouts.output.framing import read_rows, whole_rows
from nemo_gym.rollouts.output.rows import encode_row
from nemo_gym.rollouts.scores.columns import read_columns

BOM = b"\xef\xbb\xbf"
ROWS = [encode_row(task, 0, {"answer": f"é {task} \r\n", "reward": task % 2}) for task in range(5)]
FOREIGN = [
    json.dumps({"reward": 0.5, "_ng_rollout_index": 0, "_ng_task_index": n}).encode() for n in range(5)
]
TORN = b'{"_ng_task_index":7,"_ng_rollout_index":0,"answer":"half a'


def joined(lines: list[bytes], by: bytes = b"\n") -> bytes:
    return by.join(lines) + b"\n"


FRAMINGS: dict[str, Callable[[list[bytes]], bytes]] = {
    "as written": joined,
    "CR LF": lambda lines: joined([line + b"\r" for line in lines]),
    "no line feed at the end": lambda lines: joined(lines)[:-1],
    "CR LF cut between both": lambda lines: joined([line + b"\r" for line in lines])[:-1],
    "byte-order mark": lambda lines: BOM + joined(lines),
    "two files with marks, by cat": lambda lines: BOM + joined(lines[:2]) + BOM + joined(lines[2:]),
    "mark in front of a joined row": lambda lines: joined(lines[:2])[:-1] + BOM + joined(lines[2:]),
    "blank lines": lambda lines: b"\n\n" + joined(lines, b"\n \t\n\n") + b"\r\n",
    "two rows on a line": lambda lines: joined([lines[0] + lines[1], *lines[2:]]),
    "no line feed at all": b"".join,
    "blanks for line feeds": b" ".join,
    "zeros after a crash": lambda lines: joined(lines[:3]) + bytes(4096) + b"\n" + joined(lines[3:]),
    "zeros in front of a row": lambda lines: joined(lines[:3]) + bytes(511) + joined(lines[3:]),
    "zeros at the end": lambda lines: joined(lines) + bytes(4096),
}


@pytest.mark.parametrize("lines", [ROWS, FOREIGN], ids=["ours", "foreign"])
@pytest.mark.parametrize("frame", FRAMINGS.values(), ids=FRAMINGS)
def test_every_reader_finds_every_row_whatever_its_framing(
    tmp_path: Path, frame: Callable[[list[bytes]], bytes], lines: list[bytes]
) -> None:
    paths = RolloutPaths(tmp_path / "rollouts.jsonl")
    paths.output.write_bytes(frame(lines))
    assert [row for _, row, _ in read_rows(paths.output)] == lines
    columns = read_columns(paths, num_tasks=5, num_repeats=1)
    assert (columns.rows, columns.damaged, columns.duplicates) == (5, 0, 0)
    assert index_reader.nothing_to_ask(paths, 5, 1, 3)


def test_a_torn_row_and_the_one_that_was_glued_to_it_are_told_apart() -> None:
    assert whole_rows(TORN + ROWS[1]) == ([(ROWS[1], (1, 0))], TORN)
    assert whole_rows(ROWS[0] + TORN + ROWS[1]) == ([(ROWS[0], (0, 0)), (ROWS[1], (1, 0))], TORN)
    assert whole_rows(b"junk " + ROWS[0]) == ([(ROWS[0], (0, 0))], b"junk")


def test_of_joined_rows_the_damaged_one_alone_is_lost() -> None:
    bad = ROWS[1].replace(b'"reward":1', b'"reward":0')
    assert whole_rows(ROWS[0] + bad + ROWS[2]) == ([(ROWS[0], (0, 0)), (ROWS[2], (2, 0))], bad)


def test_a_row_that_quotes_rows_is_one_row() -> None:
    quoting = encode_row(3, 0, {"text": (ROWS[0] + b"\n" + ROWS[1]).decode(), "nested": json.loads(ROWS[2])})
    assert whole_rows(quoting) == ([(quoting, (3, 0))], b"")
    assert whole_rows(quoting + ROWS[4]) == ([(quoting, (3, 0)), (ROWS[4], (4, 0))], b"")


PIECES = st.sampled_from([*ROWS, *FOREIGN])
GLUE = st.sampled_from([b"", b"\n", b"\r\n", b"\n\n", BOM, bytes(3), b" ", b"\n" + BOM])


@pytest.mark.slow
@given(st.lists(st.tuples(GLUE, PIECES), max_size=8), GLUE)
def test_rows_come_back_in_order_from_any_mixture_of_framings(
    parts: list[tuple[bytes, bytes]], end: bytes
) -> None:
    data = b"".join(glue + row for glue, row in parts) + end
    found = [row for line in data.split(b"\n") for row, _ in whole_rows(line)[0]]
    assert found == [row for _, row in parts]
    assert not any(whole_rows(line)[1] for line in data.split(b"\n"))


@given(st.integers(0, 4), st.integers(1, len(ROWS[0]) - 1), st.sampled_from([b"", b"\n", b"\r\n"]))
def test_a_row_torn_at_any_byte_costs_itself_alone(at: int, cut: int, glue: bytes) -> None:
    lines = [row if number != at else row[:cut] for number, row in enumerate(ROWS)]
    data = glue.join(lines)
    found = [row for line in data.split(b"\n") for row, _ in whole_rows(line)[0]]
    assert found == [row for number, row in enumerate(ROWS) if number != at]


def test_a_long_line_of_joined_rows_takes_time_in_proportion() -> None:
    """Counted by the bytes that are looked at, for a clock needs a quiet machine."""
    looked: list[int] = []
    check = framing.check_line
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "check_line", lambda line: looked.append(len(line)) or check(line))
        line = b"".join(ROWS * 400)
        assert len(whole_rows(line)[0]) == 2000
    assert sum(looked) < 5 * len(line)


@pytest.fixture
def many(tmp_path: Path) -> RolloutPaths:
    """Some 40 MB of rows."""
    paths = RolloutPaths(tmp_path / "rollouts.jsonl")
    fields = {"response": {"text": "x" * 2000}, "reward": 0.5, "extracted_answer": "4", "ng_perf": {}}
    with paths.output.open("wb") as file:
        for task in range(20_000):
            file.write(encode_row(task, 0, fields) + b"\n")
    return paths


@pytest.mark.slow
def test_reading_rows_holds_none_and_parses_none(many: RolloutPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        @staticmethod
        def loads(_data: bytes) -> object:
            raise AssertionError("a row was parsed")

    monkeypatch.setattr(rows, "orjson", Refusing)
    monkeypatch.setattr(index_reader, "whole_rows", lambda _line: pytest.fail("a row took the slow way"))
    attempt_index = AttemptIndex(20_001, 1)
    results = index_reader.Results(attempt_index)
    tracemalloc.start()
    try:
        index_reader.index_file(many.output, results, lambda: None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (attempt_index.recorded, attempt_index.reward_sum, results.tally.clean) == (20_000, 10_000.0, True)
    assert peak < 3 << 20  # a few blocks; the rows are 40 MB
