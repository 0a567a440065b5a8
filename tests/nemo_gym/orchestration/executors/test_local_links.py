"""A killed supervisor leaves a folder that says who kept the job, or none: real ones, killed at each step."""

import os
import signal
import subprocess
import sys

import pytest

from nemo_gym.chain.observation import JobState
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.executors.local import LocalExecutor
from nemo_gym.orchestration.executors.local_links import make_link
from nemo_gym.orchestration.executors.local_numbers import claim_number
from nemo_gym.orchestration.plan.sealed_files import shell_file

KILLED_AT = """
import os, signal, sys
from pathlib import Path
at = int(sys.argv.pop(1))
def count(event, args):
    global at
    if event in ("os.mkdir", "os.rename", "open") and sys.argv[1] in str(args[0]):
        at -= 1
        if at == 0:
            os.kill(os.getpid(), signal.SIGKILL)
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.local_links import make_link
from nemo_gym.orchestration.executors.local_numbers import claim_number
from nemo_gym.orchestration.executors.local_successors import reserve_space
sys.addaudithook(count)
make_link(JobPaths(Path(sys.argv[1])), "local-1", reserve_space)
"""


@pytest.mark.slow
def test_a_supervisor_that_is_killed_at_any_moment_leaves_no_folder_or_one_with_its_name(tmp_path):
    kept, unmade = 0, 0
    for at in range(1, 40):
        job_dir = tmp_path / f"run-{at}" / "b"
        job_dir.mkdir(parents=True)
        argv = [sys.executable, "-c", KILLED_AT, str(at), str(job_dir)]
        done = subprocess.run(argv, check=False)
        link = JobPaths(job_dir).link("local-1")
        assert link.folder.exists() == link.supervisor.exists()
        if link.folder.exists():
            seen = LocalExecutor().observe([JobRef("local-1", job_dir)])["local-1"]
            assert seen.state is JobState.FAILED
            kept += 1
        else:
            unmade += 1
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert kept
    assert unmade > 3


def test_a_folder_that_cannot_be_filled_is_not_made(tmp_path):
    def full(_link):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        make_link(JobPaths(tmp_path), "local-1", full)
    assert os.listdir(tmp_path) == []


def test_the_folder_of_another_is_left_as_it_is(tmp_path):
    link = make_link(JobPaths(tmp_path), "local-1", lambda _link: None)
    before = link.supervisor.read_bytes()
    with pytest.raises(OSError, match=r"not empty|exists"):
        make_link(JobPaths(tmp_path), "local-1", lambda link: link.end.write_text("mine"))
    assert sorted(os.listdir(link.folder)) == ["supervisor.json"]
    assert link.supervisor.read_bytes() == before


QUEUE = """
set -u
. {header}
. {scheduler}
GYM_JOB_DIR={job_dir} gym_link={job_dir}/links/local-1.0 gym_job_id=local-1 NEMO_GYM_LOCAL_JOBS={numbers}
gym_put() {{ gym_try_put "$1" "$2"; [[ $1 != *{kill_after} ]] || kill -9 $BASHPID; }}
gym_reserve_space() {{ gym_put "$1/full_disk" no; }}
gym_queue_next
"""


@pytest.mark.parametrize(
    ("kill_after", "seen"),
    [("predecessor", []), ("full_disk", []), ("next", ["QUEUED"]), ("never", ["QUEUED"])],
)
def test_a_script_that_is_killed_while_it_queues_leaves_no_successor_that_nobody_keeps(
    tmp_path, kill_after, seen
):
    paths, numbers = JobPaths(tmp_path / "run" / "b"), tmp_path / "numbers"
    paths.job_dir.mkdir(parents=True)
    make_link(paths, "local-1", lambda _link: None)
    (numbers / "1").mkdir(parents=True)
    (numbers / "1" / "job.json").write_text("{}\n")
    script = QUEUE.format(
        header=shell_file("header"),
        scheduler=shell_file("scheduler_local"),
        job_dir=paths.job_dir,
        numbers=numbers,
        kill_after=kill_after,
    )
    subprocess.run(["bash", "-c", script], check=False)
    made = sorted(os.listdir(paths.link("local-1").folder.parent))
    assert made == ["local-1.0", *(["local-2.0"] if seen else [])]
    states = [LocalExecutor().observe([JobRef("local-2", paths.job_dir)])["local-2"].state for _ in seen]
    assert states == seen


def test_a_number_that_the_benchmark_has_had_is_not_claimed_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a new state folder"))
    make_link(JobPaths(tmp_path), "local-41", lambda _link: None)
    assert claim_number("gym-job-1", "b", tmp_path) == 42
