"""Rows: identity first, checksum last, and no byte of damage goes unnoticed."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.errors import DataError
from nemo_gym.rollouts.output.rows import check_line, decode_row, encode_row, read_blocks, reward_of

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_row_has_its_identity_first_and_its_checksum_last() -> None:
    line = encode_row(12, 3, {"reward": 1.0})
    assert line == b'{"_ng_task_index":12,"_ng_rollout_index":3,"reward":1.0,"_ng_crc32":"c8fc1695"}'
    assert check_line(line) == (12, 3)
    assert decode_row(line) == {"_ng_task_index": 12, "_ng_rollout_index": 3, "reward": 1.0}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 10**4), st.dictionaries(st.text(), JSON, max_size=4))
@pytest.mark.slow
def test_whatever_is_written_is_one_line_and_reads_back(task: int, rollout: int, fields: dict) -> None:
    for key in ("_ng_task_index", "_ng_rollout_index", "_ng_crc32"):
        fields.pop(key, None)
    line = encode_row(task, rollout, fields)
    assert b"\n" not in line
    assert check_line(line) == (task, rollout)
    assert decode_row(line) == {"_ng_task_index": task, "_ng_rollout_index": rollout, **fields}


def test_fields_of_the_caller_cannot_replace_identity_or_checksum() -> None:
    line = encode_row(1, 2, {"_ng_crc32": "00000000", "_ng_rollout_index": 9, "_ng_task_index": 9, "a": 1})
    assert check_line(line) == (1, 2)
    assert list(json.loads(line)) == ["_ng_task_index", "_ng_rollout_index", "a", "_ng_crc32"]


def test_every_single_damaged_byte_and_every_cut_is_noticed() -> None:
    line = encode_row(1, 2, {"answer": 'say "_ng_crc32":"12345678"} twice', "n": 1.5})
    for position in range(len(line)):
        assert check_line(line[:position]) is None
        for flipped in (0x01, 0x20, 0x80):
            damaged = bytearray(line)
            damaged[position] ^= flipped
            found = check_line(bytes(damaged))
            in_the_name_of_the_checksum = position >= len(line) - 22 and b'"_ng_crc32"' not in damaged
            assert found is None or (in_the_name_of_the_checksum and found == (1, 2)), (position, damaged)


def test_two_rows_glued_together_are_damaged() -> None:
    row = encode_row(1, 2, {"a": 1})
    assert check_line(row + row) is None
    assert check_line(row[:20] + row) is None


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\r", "\x0b", "\x1c"])
def test_other_line_separators_inside_strings_are_data(separator: str, tmp_path) -> None:
    line = encode_row(0, 0, {"answer": f"a{separator}b"})
    path = tmp_path / "rows"
    path.write_bytes(line + b"\n" + line + b"\n")
    (block,) = read_blocks(path)
    assert [check_line(each) for each in block.split(b"\n")] == [(0, 0), (0, 0)]
    assert decode_row(line)["answer"] == f"a{separator}b"


def test_rows_of_another_collector_need_no_checksum_and_no_order_of_keys() -> None:
    assert check_line(b'{"reward": 0.5, "_ng_rollout_index": 3, "_ng_task_index": 7}') == (7, 3)
    assert check_line(b'{"_ng_task_index":7,"_ng_rollout_index":3,"reward":1}') == (7, 3)
    for other in (b"", b"[]", b"null", b'{"reward": 1}', b'{"_ng_task_index": true, "_ng_rollout_index": 0}'):
        assert check_line(other) is None
    assert check_line(b'{"_ng_task_index": -1, "_ng_rollout_index": 0}') is None


def test_what_json_cannot_say_is_written_as_the_nearest_thing() -> None:
    odd = {
        "nan": math.nan,
        "big": 2**70,
        "half": "\ud800",
        "object": object,
        "set": {1},
        5: "key",
        "deep": [{"\ud800": 1}],
    }
    line = encode_row(0, 0, odd)
    assert check_line(line) == (0, 0)
    row = decode_row(line)
    assert row["nan"] is None
    assert row["big"] == str(2**70)
    assert row["half"] == "?"
    assert row["object"] == "<class 'object'>"
    assert row["set"] == [1]
    assert row["5"] == "key"
    assert row["deep"] == [{"?": 1}]


def test_a_row_nested_without_end_is_a_type_error() -> None:
    endless: list = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nested too deeply for JSON"):
        encode_row(0, 0, {"endless": endless})


def test_decoding_something_else_says_what_it_is() -> None:
    with pytest.raises(DataError, match="not a JSON object but list"):
        decode_row(b"[]")
    with pytest.raises(DataError, match="not JSON"):
        decode_row(b'{"a":')


def test_blocks_hold_whole_lines_whatever_their_length(tmp_path) -> None:
    lines = [b"x" * size for size in (0, 1, 300_000, 2, 700_000, 0, 65_535, 65_536, 262_143, 5)]
    path = tmp_path / "rows"
    path.write_bytes(b"\n".join(lines) + b"\ntorn")
    assert [line for block in read_blocks(path) for line in block.split(b"\n")] == lines


@pytest.mark.parametrize("reward", [0, 1, 0.25, 1e-07, -3.5])
def test_the_reward_of_a_row_is_read_without_parsing_it(reward):
    row = encode_row(1, 2, {"note": ',"reward":9,', "response": {"x": 1}, "reward": reward, "ng_perf": {}})
    assert reward_of(row) == reward
    assert reward_of(b'{"_ng_task_index":1,"_ng_rollout_index":0,"reward":%g}' % reward) == reward


@pytest.mark.parametrize("fields", [{}, {"reward": None}, {"reward": True}, {"reward": "1"}])
def test_a_row_without_a_grade_adds_nothing(fields):
    assert reward_of(encode_row(1, 2, {**fields, "ng_perf": {}})) == 0
