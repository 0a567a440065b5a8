"""Where the rows of a growing file are."""

from pathlib import Path

import pytest

from nemo_gym.pages.index.row_scan import scan
from nemo_gym.rollouts.output.rows import encode_row

ROWS = [encode_row(task, 0, {"text": "x" * (10 * task), "reward": 1.0, "ng_perf": {}}) for task in range(5)]


def places(path: Path, start: int = 0, **more: int) -> list[tuple[int, int]]:
    return [row.place for row in scan(path, start, most=1 << 30, **more).rows]


@pytest.mark.parametrize("block", [1, 7, 100, 1 << 20])
def test_each_row_is_found_where_it_begins_whatever_the_size_of_a_block(tmp_path: Path, block: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(row + b"\n" for row in ROWS))
    found = scan(path, 0, most=1 << 30, block=block)
    data = path.read_bytes()
    assert [data[row.at : row.at + row.length] for row in found.rows] == ROWS
    assert (found.offset, found.ended, found.damaged) == (len(data), True, 0)


def test_a_torn_last_line_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ROWS[0] + b"\n" + ROWS[1][:20])
    found = scan(path, 0, most=1 << 30)
    assert ([row.place for row in found.rows], found.offset) == ([(0, 0)], len(ROWS[0]) + 1)
    path.write_bytes(ROWS[0] + b"\n" + ROWS[1] + b"\n")
    assert places(path, found.offset) == [(1, 0)]


def test_a_slice_ends_at_the_first_line_behind_its_size(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(row + b"\n" for row in ROWS))
    found = scan(path, 0, most=1)
    assert ([row.place for row in found.rows], found.ended) == ([(0, 0)], False)


@pytest.mark.parametrize(
    ("middle", "found", "damaged"),
    [
        (b"nothing\n", [(0, 0), (1, 0)], 1),
        (b"\0\0\0\n", [(0, 0), (1, 0)], 0),
        (ROWS[3][:30] + ROWS[2] + b"\n", [(0, 0), (2, 0), (1, 0)], 1),
        (ROWS[3] + ROWS[2] + b"\r\n", [(0, 0), (3, 0), (2, 0), (1, 0)], 0),
        (ROWS[2].replace(b"xx", b"xy", 1) + b"\n", [(0, 0), (1, 0)], 1),
    ],
)
def test_what_crashes_and_other_tools_left_costs_no_other_row(
    tmp_path: Path, middle: bytes, found: list[tuple[int, int]], damaged: int
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ROWS[0] + b"\n" + middle + ROWS[1] + b"\n")
    scanned = scan(path, 0, most=1 << 30)
    assert ([row.place for row in scanned.rows], scanned.damaged) == (found, damaged)


@pytest.mark.parametrize("block", [16, 1 << 20])
def test_a_row_too_long_to_be_held_is_checked_and_known_by_its_ends(tmp_path: Path, block: int) -> None:
    long = encode_row(
        7,
        1,
        {
            "response": {"output": "y" * 3000, "incomplete_details": {"reason": "max_output_tokens"}},
            "reward": 0.0,
            "extracted_answer": None,
        },
    )
    torn = bytearray(long)
    torn[1000] ^= 1
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ROWS[0] + b"\n" + bytes(torn) + b"\n" + long + b"\n" + ROWS[1] + b"\n")
    found = scan(path, 0, most=1 << 30, block=block, held=500)
    assert [(row.place, row.long, row.cut) for row in found.rows] == [
        ((0, 0), False, False),
        ((7, 1), True, True),
        ((1, 0), False, False),
    ]
    assert found.damaged == 1
    assert found.rows[1].row == long
