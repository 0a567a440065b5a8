import json
import os
import subprocess
import time

import pytest

from nemo_gym.chain.observation import JobState
from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors import local_supervisor
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.executors.local import LocalExecutor
from nemo_gym.orchestration.executors.local_supervisor import MARKER
from nemo_runs.errors import DiskFullError
from nemo_runs.processes import trees


@pytest.fixture
def job(tmp_path):
    reference = JobRef("local-1", tmp_path / "run" / "arithmetic")
    JobPaths(reference.job_dir).link("local-1").folder.mkdir(parents=True)
    return reference


def kept_by(job, **changes):
    """Record this process, changed, as the job's supervisor."""
    identity = {**trees.identify().to_json(), **changes}
    JobPaths(job.job_dir).link("local-1").supervisor.write_text(json.dumps(identity))


def look(job):
    return LocalExecutor().observe([job])["local-1"]


def test_a_job_is_queued_until_its_script_has_begun_and_then_it_runs(job):
    kept_by(job)
    assert look(job).state is JobState.QUEUED
    JobPaths(job.job_dir).link("local-1").started.write_text("1800000000\n")
    seen = look(job)
    assert (seen.state, seen.started_at) == (JobState.RUNNING, 1800000000.0)


@pytest.mark.parametrize("changes", [{"host": "another", "boot_id": "another"}, {"pid_namespace": "pid:[1]"}])
def test_a_job_that_cannot_be_seen_from_here_is_unknown_and_cannot_be_cancelled_from_here(job, changes):
    kept_by(job, **changes)
    assert look(job).state is JobState.UNKNOWN
    with pytest.raises(GymError, match=r"local-1: .* cancel it there"):
        LocalExecutor().cancel([job])


def test_after_a_restart_of_the_machine_a_job_has_failed(job):
    kept_by(job, boot_id="an earlier one")
    seen = look(job)
    assert (seen.state, seen.exit_status) == (JobState.FAILED, None)
    assert (
        seen.reason == "its supervisor was killed, or the machine was restarted, before the job had started"
    )


@pytest.mark.parametrize("text", ["", "{", "{}", '{"pid": 1}', "[" * 99_999])
def test_a_damaged_record_of_the_supervisor_proves_nothing(job, text):
    JobPaths(job.job_dir).link("local-1").supervisor.write_text(text)
    assert look(job).state is JobState.UNKNOWN
    with pytest.raises(GymError, match=r"local-1: .*damaged"):
        LocalExecutor().cancel([job])


@pytest.mark.parametrize(
    ("state", "status", "word", "seen"),
    [
        ("COMPLETED", 0, "ended 0 none\n\n", (JobState.SUCCEEDED, "", 0)),
        ("FAILED", 3, "ended 3 none\nthe driver ended\n", (JobState.FAILED, "the driver ended", 3)),
        ("FAILED", 137, None, (JobState.FAILED, "what the kernel said", 137)),
        ("TIMEOUT", 143, "stopped 75 walltime\nx\n", (JobState.FAILED, "what the kernel said", 143)),
        ("CANCELLED", 75, "stopped 75 cancel\nx\n", (JobState.CANCELLED, "what the kernel said", 75)),
    ],
)
def test_how_a_job_ended_is_the_supervisors_word_and_why_it_failed_the_scripts(
    job, state, status, word, seen
):
    link = JobPaths(job.job_dir).link("local-1")
    end = {"state": state, "exit_status": status, "signal": 0, "started_at": 1.0, "ended_at": 2.0}
    link.exit.write_text(json.dumps({**end, "reason": "what the kernel said"}))
    if word is not None:
        link.end.write_text(word)
    observed = look(job)
    assert (observed.state, observed.reason, observed.exit_status) == seen
    assert observed.ended_at == 2.0


def test_what_a_killed_supervisor_and_script_left_running_is_seen_and_can_be_cancelled(job):
    dead = subprocess.Popen(["true"])
    identity = trees.identify(dead.pid)
    dead.wait()
    kept_by(job, pid=identity.pid, start_time=identity.start_time)
    left = subprocess.Popen(["sleep", "60"], env={MARKER: "run/arithmetic/local-1.0"}, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while (seen := look(job)).state is not JobState.RUNNING and time.monotonic() < deadline:
            time.sleep(0.01)  # until the program has taken the environment
        assert seen.state is JobState.RUNNING
        assert "1 of its processes still run" in seen.reason
        LocalExecutor().cancel([job])
        assert left.wait(timeout=60) != 0
    finally:
        left.kill()
        left.wait()
    assert look(job).state is JobState.FAILED


def test_a_folder_that_names_no_supervisor_was_left_by_one_that_was_killed(job):
    assert look(job).state is JobState.UNKNOWN  # of this moment: its supervisor may write it down yet
    an_hour_ago = time.time() - 3600
    os.utime(JobPaths(job.job_dir).link("local-1").folder, (an_hour_ago, an_hour_ago))
    seen = look(job)
    assert (seen.state, seen.word) == (JobState.FAILED, "NODE_FAIL")
    assert "its supervisor was killed" in seen.reason
    LocalExecutor().cancel([job])


@pytest.mark.parametrize(("changes", "state"), [({}, "QUEUED"), ({"boot_id": "earlier"}, "FAILED")])
def test_a_successor_that_names_no_supervisor_is_kept_by_that_of_the_job_before(job, changes, state):
    kept_by(job, **changes)
    following = JobPaths(job.job_dir).link("local-2")
    following.folder.mkdir()
    following.predecessor.write_text("local-1\n")
    seen = LocalExecutor().observe([JobRef("local-2", job.job_dir)])["local-2"]
    assert seen.state == state


def test_a_job_that_nobody_has_made_stays_unknown(job):
    seen = LocalExecutor().observe([JobRef("local-7", job.job_dir)])["local-7"]
    assert (seen.state, "no trace of local-7" in seen.reason) == (JobState.UNKNOWN, True)


def test_a_successor_that_waits_can_be_cancelled_again_after_its_disk_was_full(job, monkeypatch):
    kept_by(job)
    link = JobPaths(job.job_dir).link("local-1")
    link.predecessor.write_text("local-0\n")

    def full(path, *_args, **_kwargs):
        raise DiskFullError(f"{path}: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(local_supervisor, "replace_file", full)
        with pytest.raises(DiskFullError):
            LocalExecutor().cancel([job])
    assert look(job).state is JobState.QUEUED
    LocalExecutor().cancel([job])
    assert look(job).state is JobState.CANCELLED
