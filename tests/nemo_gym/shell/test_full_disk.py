"""A job whose disk is full waits, goes on, and at last ends as nobody's fault: real bash, a real tmpfs."""

import shutil
import subprocess
import time
from dataclasses import replace

import pytest
from tests.local_jobs import until
from tests.nemo_gym.shell.test_chain import COMPLETE, UNTIL_TOLD, World, says

from nemo_gym.chain import endings
from nemo_gym.chain.budget import Budget
from nemo_gym.chain.endings import BenchmarkState, EndCause
from nemo_gym.chain.evidence import Evidence
from nemo_gym.chain.run_end import FULL_DISKS
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.status.benchmark_state import state_and_job
from nemo_gym.orchestration.status.link_files import parse
from nemo_gym.rollouts.collect.exit_report import ExitReport

pytestmark = pytest.mark.services


class SmallDisk(World):
    """A benchmark's folder on a disk of its own that can be filled and emptied."""

    def __init__(self, folder):
        (folder / "run").mkdir()
        self._mounted = folder / "run"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=300", "none", str(self._mounted)], check=True
        )
        super().__init__(folder)

    @property
    def ballast(self):
        return self._mounted / "ballast"

    def fill(self, *, inodes=False):
        """Use up every block, and every inode if asked."""
        self.ballast.mkdir(exist_ok=True)
        with (self.ballast / "blocks").open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
        try:
            for number in range(300 if inodes else 0):
                (self.ballast / str(number)).touch()
        except OSError:
            pass

    def empty(self):
        shutil.rmtree(self.ballast)

    def evidence(self):
        """What status reads of the benchmark's folder."""
        look = LocalRunFiles().look([self.job_dir])
        return Evidence(
            gym_job_id="gym-job-x",
            benchmark="b",
            job_dir=self.job_dir,
            where="this machine",
            first_job="1",
            **parse(look.folders[self.job_dir]),
        )

    def unmount(self):
        subprocess.run(["umount", "-l", str(self._mounted)], check=True)


@pytest.fixture
def disk(tmp_path):
    try:
        made = SmallDisk(tmp_path)
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("a small file system can be mounted by root alone")
    yield made
    for job in made.started:
        if job.poll() is None:
            job.terminate()
            job.communicate(timeout=60)
    made.unmount()


def told(job, text, lines):
    """Wait until the job has said something; ``lines`` collects what it says."""
    while True:
        line = job.stderr.readline()
        assert line, "".join(lines)
        lines.append(line)
        if text in line:
            return


@pytest.mark.parametrize("inodes", [False, True])
def test_a_job_that_starts_on_a_full_disk_waits_for_room_and_then_works(disk, inodes):
    disk.fill(inodes=inodes)
    job = disk.start(1, drive=says(COMPLETE))
    lines = []
    told(job, "waiting up to 1800 s for disk space", lines)
    assert disk.worked == 0
    disk.empty()
    _, rest = job.communicate(timeout=60)
    assert job.returncode == 0
    assert "there is disk space again" in rest
    assert disk.link(1).end.read_text().startswith("ended 0 none\n")
    assert disk.worked == 1


@pytest.mark.parametrize("inodes", [False, True])
def test_a_disk_that_stays_full_ends_the_job_without_a_retry_and_its_successor_goes_on(disk, inodes):
    disk.set("state-1", "PREEMPTED")
    disk.set("state-2", "FAILED")
    disk.run(1)
    disk.fill(inodes=inodes)
    status, said = disk.run(2, 1, NEMO_GYM_FULL_DISK_SECONDS="0")
    assert status == 1
    assert "waiting up to 0 s" in said
    assert disk.worked == 1, "no driver starts on a full disk"
    (following,) = disk.lines("queue")[-1:]
    disk.empty()
    assert disk.lines("handed") == ["2", "full-disk:1:1"]
    status, said = disk.run(following, disk.lines("handed"), drive=says(COMPLETE))
    assert status == 0
    assert "going on: the job before ended as PREEMPTED" in said
    assert disk.dot(".gym_infra_retries") == ["0"]


def test_a_failure_counts_as_a_retry_although_the_next_job_had_no_room_to_decide_about_it(disk):
    disk.limits(Budget(max_retries=1))
    disk.run(1)
    disk.set("state-1", "FAILED")
    disk.fill(inodes=True)
    # two in a row have no room for a byte: what they are to decide is handed on by each
    disk.run(2, 1, NEMO_GYM_FULL_DISK_SECONDS="0")
    disk.run(3, disk.lines("handed"), NEMO_GYM_FULL_DISK_SECONDS="0")
    assert disk.lines("handed") == ["3", "full-disk:2:1"]
    disk.empty()
    _, said = disk.run(4, disk.lines("handed"))
    assert "going on: the job before ended as FAILED" in said
    assert disk.dot(".gym_infra_retries") == ["1"]
    assert disk.lines("looks") == ["1"]
    disk.set("state-4", "FAILED")
    status, said = disk.run(5, 4)
    assert (status, disk.worked) == (1, 2)
    assert "max_retries (1) are used up" in said


def fills_after_its_reserve(disk):
    """Let the program of the job fill the disk when it is asked for its version."""
    blocks = f"cat /dev/zero >{disk.ballast} 2>/dev/null; "
    disk.gym.write_text(disk.gym.read_text().replace("echo gym 9;", blocks + "echo gym 9;"))


def test_a_job_with_room_for_its_last_word_alone_says_in_it_what_is_still_to_be_decided(disk):
    disk.run(1)
    disk.set("state-1", "FAILED")
    program = disk.gym.read_text()
    fills_after_its_reserve(disk)
    disk.run(2, 1, NEMO_GYM_FULL_DISK_SECONDS="0")
    assert disk.link(2).full_disk.read_text().split() == ["1", "about", "1"]
    assert not disk.link(2).decision.exists()
    disk.ballast.unlink()
    disk.gym.write_text(program)
    disk.set("state-2", "FAILED")
    _, said = disk.run(101, 2)
    assert "going on: the job before ended as FAILED" in said
    assert disk.dot(".gym_infra_retries") == ["1"]
    assert "about=1" in disk.decision(101)[2]
    assert "full_disks=1" in disk.decision(101)[2]


@pytest.mark.parametrize(
    ("last", "state", "expected"),
    [
        (ExitReport("failed", 1, 0, 0, 0, "x is wrong"), "FAILED", "no retry can help: x is wrong"),
        (COMPLETE, "FAILED", "every rollout is recorded"),
        (
            ExitReport("failed", 1, 5, 0, 0, None),
            "CANCELLED by 1000",
            "the job before was cancelled by user 1000",
        ),
    ],
)
def test_what_ended_a_chain_ends_it_although_the_next_job_had_no_room_to_say_so(disk, last, state, expected):
    disk.run(1, drive=says(last))
    disk.set("state-1", state)
    disk.fill(inodes=True)
    disk.run(2, 1, NEMO_GYM_FULL_DISK_SECONDS="0")
    disk.empty()
    _, said = disk.run(3, disk.lines("handed"))
    assert expected in said
    assert disk.worked == 1


def test_a_retry_that_was_counted_before_the_disk_was_full_is_not_counted_again(disk):
    disk.run(1)
    disk.set("state-1", "FAILED")
    disk.run(2, 1)
    # it counted, and had no room for its decision any more
    disk.link(2).decision.unlink()
    disk.link(2).full_disk.write_text(f"{'1 about 1':<63}\n")
    disk.link(2).end.write_text("full_disk 1 none\nfull\n")
    disk.run(3, 2)
    assert disk.dot(".gym_infra_retries") == ["1"]
    assert not disk.link(3).retry.exists()
    assert "retries=1 " in disk.decision(3)[2]


def test_the_cause_of_an_end_is_that_of_the_job_that_was_decided_about(disk):
    disk.limits(Budget(max_retries=0))
    disk.run(1)
    disk.set("state-1", "OUT_OF_MEMORY")
    disk.run(2, 1, drive="exit 1", NEMO_GYM_FULL_DISK_SECONDS="0")
    disk.link(2).decision.unlink(missing_ok=True)
    disk.link(2).full_disk.write_text(f"{'1 about 1':<63}\n")
    disk.link(2).end.write_text("full_disk 1 none\nfull\n")
    disk.run(3, 2)
    verdict = endings.ended(disk.evidence(), disk.evidence().last)
    assert "ended as OUT_OF_MEMORY" in verdict.reason
    assert verdict.cause is not EndCause.INFRASTRUCTURE


def test_a_disk_that_fills_while_the_driver_works_is_not_blamed_on_it(disk):
    job = disk.start(1, drive=UNTIL_TOLD, NEMO_GYM_FULL_DISK_SECONDS="0")
    until(lambda: disk.worked == 1)
    disk.fill()
    disk.set("end", "now")
    job.communicate(timeout=60)
    assert job.returncode == 1
    end = disk.link(1).end.read_text()
    assert end.startswith("full_disk 1 none\n")
    assert "stayed full, or a quota used up" in end
    assert disk.lines("queue") == ["101"], "the successor stays queued"
    verdict = endings.ended(disk.evidence(), disk.evidence().last)
    assert (verdict.state, verdict.cause) == (BenchmarkState.FAILED, EndCause.INFRASTRUCTURE)
    assert "stayed full" in verdict.reason


def test_a_driver_that_waited_in_vain_itself_is_believed_after_there_is_room_again(disk):
    tell = 'printf "%-63s\\n" told 1<>"$NEMO_GYM_LINK/full_disk"; exit 1'
    status, _ = disk.run(1, drive=tell)
    assert status == 1
    assert disk.link(1).end.read_text().startswith("full_disk 1 none\n")
    disk.set("state-1", "FAILED")
    _, said = disk.run(101, 1, drive=tell)
    assert "going on: the job before ended because its disk stayed full" in said
    assert disk.link(101).full_disk.read_text().split() == ["2"]
    assert disk.dot(".gym_infra_retries") == ["0"]


def test_ten_in_a_row_end_the_chain_and_say_what_helps(disk):
    disk.limits(Budget(max_links_without_progress=None))
    tell = 'printf "%-63s\\n" told 1<>"$NEMO_GYM_LINK/full_disk"; exit 1'
    before = ""
    for number in range(1, FULL_DISKS + 1):
        disk.set(f"state-{number}", "FAILED")
        disk.run(number, before, drive=tell)
        before = number
    assert disk.lines("queue")[-1:] != ["110"], "nobody is left to go on"
    _, _, reason = disk.link(FULL_DISKS).end.read_text().partition("\n")
    assert (
        reason.strip()
        == "the disk stayed full in 10 jobs in a row; free disk space, then resubmit the benchmark"
    )
    status, said = disk.run(FULL_DISKS + 1, before)
    assert status == 1
    assert "the disk stayed full in 10 jobs in a row" in said
    verdict = endings.ended(disk.evidence(), disk.evidence().last)
    assert (verdict.state, verdict.cause) == (BenchmarkState.FAILED, EndCause.INFRASTRUCTURE)


def test_what_is_complete_is_complete_although_the_end_marker_finds_no_room(disk):
    fill = "cat /dev/zero >ballast-of-the-driver 2>/dev/null; "
    drive = says(COMPLETE).replace("exit 0", fill + "exit 0")
    status, _ = disk.run(1, drive=drive, NEMO_GYM_FULL_DISK_SECONDS="0")
    assert status == 0
    assert disk.link(1).end.read_text().split() == ["ended", "0", "none"]
    assert disk.lines("queue") == []


def test_a_stop_during_the_wait_ends_it_at_once(disk):
    disk.fill()
    job = disk.start(1, drive=says(COMPLETE))
    told(job, "waiting up to", [])
    job.terminate()
    started = time.monotonic()
    job.communicate(timeout=60)
    assert time.monotonic() - started < 30
    assert disk.worked == 0


def test_status_tells_of_a_job_that_waits_for_room(disk):
    job = disk.start(
        1, drive='printf "%-63s\\n" "waiting 1800000000" 1<>"$NEMO_GYM_LINK/full_disk"; ' + UNTIL_TOLD
    )
    until(lambda: disk.worked == 1 and disk.evidence().last.waits_for_room)
    known = replace(disk.evidence(), now=1800000065.0, silent="nobody answers")
    verdict, job_id = state_and_job(known)
    assert (verdict.state, job_id) == (BenchmarkState.RUNNING, "1")
    waits = "it waits for disk space, for 1 min 5 s so far"
    assert verdict.reason == f"its disk is full, or a quota is used up; {waits}"
    disk.set("end", "now")
    job.communicate(timeout=60)
