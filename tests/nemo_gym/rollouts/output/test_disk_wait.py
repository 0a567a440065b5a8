"""How long disk space is waited for, what else is not, and what a job is told; time is passed in."""

import errno

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.output.disk_wait import DiskWait, is_full, publish
from nemo_runs.durable import disk
from nemo_runs.errors import DiskFullError


class Disk:
    """Full for so many writes."""

    def __init__(self, path, full, number=errno.ENOSPC):
        self.path, self.full, self.number, self.now = path, full, number, 0.0

    def write(self):
        if self.full > 0:
            self.full -= 1
            with disk.full_disk_named(self.path):
                raise OSError(self.number, "no room")
        return "written"

    def sleep(self, seconds):
        self.now += seconds


def made(disk, environ=None, **changes):
    said = []
    return DiskWait(environ=environ or {}, report=said.append, monotonic=lambda: disk.now, **changes), said


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_and_a_quota_are_waited_for_and_said_once(tmp_path, number):
    full = Disk(tmp_path / "rows", 5, number)
    room, said = made(full)
    assert room.wait(full.write, sleep=full.sleep) == "written"
    waiting, again = said
    assert waiting.startswith(
        f"{tmp_path}/rows: could not be written (no room); waiting up to 1800 s for disk space;"
    )
    assert again == "there is disk space again after 2 s; continuing."


def test_the_wait_has_a_bound_that_begins_with_the_first_failure(tmp_path):
    full = Disk(tmp_path / "rows", 10_000)
    room, _ = made(full, {"NEMO_GYM_FULL_DISK_SECONDS": "60"})
    with pytest.raises(DiskFullError):
        room.wait(full.write, sleep=full.sleep)
    assert full.now == 60
    full.full = 3
    assert DiskWait(environ={}, report=print, monotonic=lambda: full.now).wait(full.write, sleep=full.sleep)


def test_a_stop_ends_the_wait(tmp_path):
    full = Disk(tmp_path / "rows", 10_000)
    room, _ = made(full, stop=lambda: full.now >= 3)
    with pytest.raises(DiskFullError):
        room.wait(full.write, sleep=full.sleep)
    assert full.now == 3


@pytest.mark.parametrize("number", [errno.EFBIG, errno.EACCES, errno.EIO])
def test_what_no_wait_can_mend_is_not_waited_for(tmp_path, number):
    full = Disk(tmp_path / "rows", 1, number)
    room, said = made(full)
    with pytest.raises((DiskFullError, OSError)):
        room.wait(full.write, sleep=full.sleep)
    assert (full.now, said) == (0, [])


def test_a_full_disk_is_seen_behind_other_errors():
    assert is_full(OSError(errno.ENOSPC, "x"))
    wrapped = RuntimeError("the prepare script failed")
    wrapped.__cause__ = OSError(errno.EDQUOT, "x")
    assert is_full(wrapped)
    assert not is_full(RuntimeError("x"))


def test_a_job_is_told_in_place_and_only_where_it_has_room(tmp_path):
    environ = {"NEMO_GYM_LINK": str(tmp_path)}
    publish(environ, "told")
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "full_disk"
    file.write_text(f"{'no':<63}\n")
    inode = file.stat().st_ino
    publish(environ, "waiting 1800000000")
    assert file.read_text() == f"{'waiting 1800000000':<63}\n"
    publish(environ, "no")
    assert file.read_text() == f"{'no':<63}\n"
    assert file.stat().st_ino == inode


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_a_bound_that_is_no_number_is_refused_by_its_name(text):
    with pytest.raises(ConfigError, match=f"NEMO_GYM_FULL_DISK_SECONDS: '{text}' is not a number of seconds"):
        DiskWait(environ={"NEMO_GYM_FULL_DISK_SECONDS": text}, report=print)
