import hashlib
import json
from pathlib import Path

import pytest

from nemo_gym.errors import DataError
from nemo_gym.rollouts.output.inputs import write_inputs

ROWS = [b'{"_ng_task_index":%d,"_ng_rollout_index":0}' % number for number in range(1000)]


def write(path: Path, rows: list[bytes], expected: int = 1000) -> dict[str, object]:
    return write_inputs(path, rows, expected=expected, sha256=None, beat=lambda: None)


def test_every_row_is_written_once_in_order_and_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "inputs.jsonl"
    described = write(path, ROWS)
    content = path.read_bytes()
    assert [json.loads(line)["_ng_task_index"] for line in content.splitlines()] == list(range(1000))
    assert content.endswith(b"}\n")
    assert (described["rows"], described["size"]) == (1000, len(content))
    assert described["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("at", [0, 255, 256, 700])
def test_a_row_with_a_line_break_is_named_and_nothing_is_written(tmp_path: Path, at: int) -> None:
    rows = [*ROWS[:at], b'{"a":\n1}', *ROWS[at + 1 :]]
    with pytest.raises(DataError, match=f"materialized row {at + 1} holds a line break"):
        write(tmp_path / "inputs.jsonl", rows)
    assert list(tmp_path.iterdir()) == []


def test_too_few_rows_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1,001 rows are planned, but the data set gave 1,000"):
        write(tmp_path / "inputs.jsonl", ROWS, expected=1001)
    assert list(tmp_path.iterdir()) == []
