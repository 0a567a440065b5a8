"""Reading a hundred rows at once finds what reading them one by one finds."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.rollouts.output import index_reader
from nemo_gym.rollouts.output.attempt_index import AttemptIndex
from nemo_gym.rollouts.output.batches import identities, read_batches, rewards
from nemo_gym.rollouts.output.rows import encode_row, reward_of

TASKS, REPEATS = 12, 11


def row(task: int, rollout: int, **fields: object) -> bytes:
    return encode_row(task, rollout, {"answer": f"é {task}", "reward": 1.0, "ng_perf": {}, **fields})


def summed(body: bytes) -> bytes:
    """A row of these bytes with the checksum that fits."""
    return body + b',"_ng_crc32":"%08x"}' % crc32(body)


WELL = [row(task, rollout) for task in (0, 7, 11) for rollout in (0, 9, 10)]
ODD = {
    "graded by another number": row(1, 0, reward=0.25),
    "graded by a whole number": row(1, 1, reward=3),
    "without a grade": row(1, 2, reward=None),
    "graded by a list": row(1, 3, reward=[1, 2]),
    "graded by a text": row(1, 4, reward="a,b"),
    "no grade at all": encode_row(1, 5, {"answer": "a"}),
    "a grade within a grade": encode_row(1, 6, {"reward": 1.0, "more": {"a": 1, "reward": 0.5, "b": 1}}),
    "nothing but an identity": encode_row(1, 7, {}),
    "quotes a row": row(1, 8, answer=WELL[0].decode(), nested={"_ng_task_index": 3, "_ng_rollout_index": 1}),
    "no such task": row(TASKS, 0),
    "no such rollout": row(0, REPEATS),
    "far away": row(10**14, 10**14),
    "leading zeros": summed(b'{"_ng_task_index":002,"_ng_rollout_index":00,"reward":1.0'),
    "negative": summed(b'{"_ng_task_index":-2,"_ng_rollout_index":0,"reward":1.0'),
    "checksum in capitals": row(2, 1)[:-10] + row(2, 1)[-10:].upper(),
    "another checksum": row(2, 2)[:-10] + b'00000000"}',
    "a changed letter": row(2, 3).replace(b"answer", b"Answer"),
    "a changed name": row(2, 4).replace(b"crc32", b"crc23"),
    "torn": row(2, 5)[:-30],
    "CR LF": row(2, 6) + b"\r",
    "joined": row(2, 7) + row(2, 8),
    "behind a mark": b"\xef\xbb\xbf" + row(2, 9),
    "of another collector": b'{"reward": 0.5, "_ng_rollout_index": 10, "_ng_task_index": 2}',
    "not ours": b'{"a": 1}',
    "blank": b"",
    "a checksum alone": b',"_ng_crc32":"00000000"}',
}
LINES = st.sampled_from([*WELL, *ODD.values()])


def read(kind: type[index_reader.Results], lines: list[bytes]) -> tuple[AttemptIndex, index_reader.FileTally]:
    indexer = kind(AttemptIndex(TASKS, REPEATS))
    indexer.take_batch([line + b"\n" for line in lines])
    return indexer.attempt_index, indexer.tally


class OneByOne(index_reader.Results):
    take_batch = index_reader.RowIndexer.take_batch


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_one_odd_line_changes_nothing_for_its_neighbours(odd: bytes) -> None:
    lines = [*WELL[:3], odd, *WELL[3:], odd]
    assert read(index_reader.Results, lines) == read(OneByOne, lines)


@given(st.lists(LINES, min_size=1, max_size=30))
@pytest.mark.slow
def test_any_lines_read_the_same_at_once_as_one_by_one(lines: list[bytes]) -> None:
    assert read(index_reader.Results, lines) == read(OneByOne, lines)


@given(st.data())
@pytest.mark.slow
def test_a_batch_passes_with_none_of_its_bytes_changed(data: st.DataObject) -> None:
    lines = [line + b"\n" for line in WELL]
    number = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[number])
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))
    lines[number] = bytes(line)
    assert identities(lines) is None


@pytest.mark.parametrize(
    "lines", [WELL, WELL[:1], WELL[1:3], WELL[2::3]], ids=["mixed", "one", "two", "wide"]
)
def test_rows_as_they_are_written_pass_whatever_the_number_of_digits(lines: list[bytes]) -> None:
    found = identities([line + b"\n" for line in lines])
    assert found is not None
    assert [row(*identity) for identity in zip(*found, strict=True)] == lines


@pytest.mark.parametrize("number", range(9))
def test_grades_add_up_as_each_is_read(number: int) -> None:
    lines = [*WELL, list(ODD.values())[number]]
    assert rewards([line + b"\n" for line in lines]) == sum(map(reward_of, lines))


def test_a_file_comes_in_whole_lines_and_its_tail_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    lines = [b"x" * size + b"\n" for size in (0, 1, 300_000, 2, 700_000, 0, 65_535, 131_071, 131_072, 5)]
    path.write_bytes(b"".join(lines) + b"torn")
    assert [line for batch in read_batches(path) for line in batch] == lines
    assert [line for batch in read_batches(path, tail=True) for line in batch] == [*lines, b"torn"]


def test_a_row_that_is_still_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"one\ntw")
    batches = read_batches(path)
    assert next(batches) == [b"one\n"]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert list(batches) == []
