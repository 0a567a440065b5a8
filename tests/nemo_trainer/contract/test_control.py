import json

import pytest

from nemo_trainer.contract import Control, read_control, write_control


def test_a_request_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "control.json"
    assert write_control(path, Control(3, "pause", "ada", 12.5))
    assert read_control(path) == Control(3, "pause", "ada", 12.5)


def test_an_older_or_equal_request_does_not_replace_a_later_one(tmp_path):
    path = tmp_path / "control.json"
    assert write_control(path, Control(2, "run", "ada", 2.0))
    assert not write_control(path, Control(1, "pause", "ada", 1.0))
    assert not write_control(path, Control(2, "pause", "ada", 1.0))
    assert read_control(path) == Control(2, "run", "ada", 2.0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"seq": 1, "want": "explode", "by": "x", "at": 1}',
        b'{"seq": 1e999, "want": "run", "by": "x", "at": 1}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_request_is_none_and_can_be_replaced(tmp_path, data):
    path = tmp_path / "control.json"
    path.write_bytes(data)
    assert read_control(path) is None
    assert write_control(path, Control(1, "pause", "ada", 1.0))
    assert json.loads(path.read_bytes())["want"] == "pause"


def test_a_missing_file_asks_for_nothing(tmp_path):
    assert read_control(tmp_path / "none" / "control.json") is None
