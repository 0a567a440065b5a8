"""A successor that had no room to be queued is queued by the supervisor: real processes, a real tmpfs."""

import subprocess

import pytest
from tests.local_jobs import Workplace, until

from nemo_gym.chain.budget import Budget
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.executors.local_successors import queue_owed, reserve_space
from nemo_runs.durable.journal import read_journal

pytestmark = pytest.mark.services

GYM = """#!/bin/bash
link=$PWD/links/$NEMO_GYM_JOB_ID.0
if [[ $1 == --version ]]; then
  # the first successor has begun, and has not decided yet
  if [[ -s $link/predecessor && ! -e {once} ]]; then
    : >{once}
    cat /dev/zero >{ballast} 2>/dev/null
  fi
  echo 'gym 9'
elif [[ -e {once} ]]; then
  echo '{complete}' >"$NEMO_GYM_LINK/collected"
else
  exit 3
fi
"""
COMPLETE = '{"state":"complete","status":0,"expected":0,"recorded":0,"new":0,"hopeless":null}'


@pytest.fixture
def place(tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    disk.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root alone")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NEMO_GYM_FULL_DISK_SECONDS", "0")
    made = Workplace(disk)
    gym = tmp_path / "gym"
    text = GYM.format(once=tmp_path / "once", ballast=disk / "ballast", complete=COMPLETE)
    gym.write_text(text)
    gym.chmod(0o755)
    yield made, gym
    (disk / "ballast").unlink(missing_ok=True)
    made.tidy()
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_chain_goes_on_after_a_job_that_had_no_room_to_decide_or_to_queue_another(place):
    made, gym = place
    plan = made.plan(gym=gym, budget=Budget())
    (first,) = made.submit(plan)
    paths = JobPaths(plan.job_dir)
    second = until(paths.link(first.job_id).next.exists) and paths.link(first.job_id).next
    second = paths.link(second.read_text().strip())
    until(second.end.exists)
    assert second.full_disk.read_text().split() == ["1", "about", first.job_id, "unqueued"]
    assert not second.exit.exists()
    (made.folder / "ballast").unlink()
    third = until(lambda: second.next.exists() and second.next.read_text().strip())
    made.wait(JobRef(third, plan.job_dir))
    assert paths.link(third).predecessor.read_text().split() == [second.folder.name.removesuffix(".0")]
    # the end of the first one counts, although only the third could decide about it
    assert (paths.job_dir / ".gym_infra_retries").read_text() == "1\n"
    assert "the job before ended as FAILED" in paths.link(third).decision.read_text()
    assert paths.link(third).end.read_text().startswith("ended 0 none")
    queued = [e["successor"] for e in read_journal(paths.events) if e["event"] == "successor_queued"]
    assert third in queued


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    paths = JobPaths(tmp_path / "run" / "b")
    link = paths.link("local-1")
    link.folder.mkdir(parents=True)
    reserve_space(link)
    return paths, link


@pytest.mark.parametrize(
    ("word", "owed"),
    [
        ("1 about local-0 unqueued", True),
        ("3 unqueued", True),
        ("3", False),
        ("no", False),
        ("waiting 1800000000", False),
    ],
)
def test_only_a_job_that_says_so_is_owed_a_successor(job, word, owed):
    paths, link = job
    link.full_disk.write_text(f"{word:<63}\n")
    queue_owed(paths, "local-1", "gym-job-1", unwanted=lambda: False)
    assert link.next.exists() == owed
    if owed:
        following = paths.link(link.next.read_text().strip())
        assert following.predecessor.read_text() == "local-1\n"
        assert (following.full_disk.stat().st_size, following.end_reserve.stat().st_size) == (64, 2048)


def test_nobody_goes_on_after_a_cancellation(job):
    paths, link = job
    link.full_disk.write_text(f"{'1 unqueued':<63}\n")
    queue_owed(paths, "local-1", "gym-job-1", unwanted=lambda: True)
    paths.cancelled.write_text("now\nme\n\n")
    queue_owed(paths, "local-1", "gym-job-1", unwanted=lambda: False)
    assert not link.next.exists()


def test_a_job_of_a_folder_without_a_reserve_is_owed_nothing(job):
    paths, link = job
    link.full_disk.unlink()
    queue_owed(paths, "local-1", "gym-job-1", unwanted=lambda: False)
    assert not link.next.exists()
