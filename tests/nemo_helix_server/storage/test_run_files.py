"""The files of a run on a full disk: what must be written has its space from the start."""

import dataclasses
import json

import pytest
from tests.small_disk import fill, small_disk

from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.run_files import ExitRecord
from nemo_runs.errors import DiskFullError

END = ExitRecord(1, 0, 1.0, 2.0, False, False, False, "exited with status 1", disk_full=True)


@pytest.fixture
def small(tmp_path):
    with small_disk(tmp_path / "small", megabytes=1) as folder:
        yield folder


def test_an_end_and_requests_find_room_on_a_full_disk_where_it_was_reserved(small):
    run_files.reserve(small)
    fill(small)
    request = json.dumps({"grace_seconds": 5.0, "stacks": False}).encode()
    run_files.write_small(small, run_files.STOP, request)
    assert run_files.read_stop(small) == (5.0, False)
    run_files.write_end(small, END)
    assert run_files.read_end(small) == END
    assert {path.name for path in small.iterdir()} == {"ballast", run_files.STOP, run_files.EXIT}


def test_without_reserved_space_a_full_disk_is_an_error_and_nothing_is_half_written(small):
    fill(small)
    for write in (lambda: run_files.reserve(small), lambda: run_files.write_end(small, END)):
        with pytest.raises(DiskFullError):
            write()
    assert run_files.read_end(small) is None


def test_where_there_is_room_the_reserved_space_is_given_back(tmp_path):
    run_files.reserve(tmp_path)
    run_files.write_end(tmp_path, END)
    assert [path.name for path in tmp_path.iterdir()] == [run_files.EXIT]


def test_an_end_of_an_earlier_version_says_nothing_of_the_disk(tmp_path):
    value = dataclasses.asdict(END)
    del value["disk_full"]
    (tmp_path / run_files.EXIT).write_text(json.dumps(value))
    assert run_files.read_end(tmp_path).disk_full is False
