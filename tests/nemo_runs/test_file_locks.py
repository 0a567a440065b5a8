"""A lock keeps others out until its holder ends."""

import os
import subprocess
import sys

import pytest

from nemo_runs import file_locks

HOLDER = """
import sys
from pathlib import Path
from nemo_runs import file_locks
held = file_locks.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    argv = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_lock_of_another_process_is_seen_and_not_taken(tmp_path, holder):
    lock = tmp_path / "lock"
    assert file_locks.is_held(lock)
    assert file_locks.acquire(lock, wait=False) is None
    assert lock.stat().st_mode & 0o777 == 0o600


def test_a_lock_ends_with_its_holder_also_when_that_is_killed(tmp_path, holder):
    holder.kill()
    with file_locks.held(tmp_path / "lock"):
        assert file_locks.is_held(tmp_path / "lock")
    assert not file_locks.is_held(tmp_path / "lock")


def test_nobody_holds_a_file_that_is_missing(tmp_path):
    assert not file_locks.is_held(tmp_path / "lock")
    assert not (tmp_path / "lock").exists()


def test_shared_locks_stand_side_by_side(tmp_path):
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    try:
        assert file_locks.take(first, wait=False, shared=True)
        assert file_locks.take(second, wait=False, shared=True)
        assert not file_locks.take(second, wait=False)
    finally:
        os.close(first)
        os.close(second)


def test_a_file_that_cannot_be_locked_is_an_error_and_leaves_no_descriptor(tmp_path):
    read, write = os.pipe()
    os.close(write)
    os.close(read)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file_locks.take(read, wait=False)
    with pytest.raises(FileNotFoundError):
        file_locks.acquire(tmp_path / "missing" / "lock")
