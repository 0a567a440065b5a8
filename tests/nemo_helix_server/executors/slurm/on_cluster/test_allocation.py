"""The program of a batch job, as a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from nemo_helix_server.executors.slurm.on_cluster import folders
from nemo_helix_server.storage import run_files
from nemo_trainer.contract import generations, names

SAYS = "echo generation=$NEMO_JOB_GENERATION"


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "jobs" / "j"
    (folder / "storage" / "training").mkdir(parents=True)
    return folder


def order(job, number, script=SAYS, **changes):
    run = job / "runs" / f"task-{number:032x}"
    run.mkdir(parents=True)
    said = {
        "token": run.name,
        "argv": ["/bin/sh", "-c", script],
        "environment": {"NEMO_JOB_TASK": run.name, names.ATTEMPT: "att-1"},
        "working_directory": str(job),
        "time_limit_seconds": None,
        "grace_seconds": 5,
        "log_bytes": 1 << 20,
        "nodes": 1,
        "gpus": 0,
        "rank": [],
        "container": None,
        "trainer": str(job / "storage" / "training"),
        "start": number,
        "goes_on": True,
        "chain": None,
    }
    (run / folders.ORDER).write_text(json.dumps({**said, **changes}))
    return run


def allocate(run):
    """Run the program; its exit status and what it said."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    words = [sys.executable, "-m", "nemo_helix_server.executors.slurm.on_cluster.allocation", str(run)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=clean)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_a_command_is_given_the_generation_that_was_claimed_for_it(job):
    for number in (1, 2):
        run = order(job, number)
        assert allocate(run) == (0, "")
        assert f"generation={number}" in (run / run_files.OUTPUT).read_text()
    newest = generations.newest(job / "storage" / "training")
    assert (newest.number, newest.task, newest.attempt) == (2, run.name, "att-1")
    assert json.loads((run / folders.NODE).read_text())["generation"] == 2


def test_a_step_that_cannot_go_on_has_no_generation(job):
    run = order(job, 1, goes_on=False)
    assert allocate(run) == (0, "")
    assert 'generation="' in (run / run_files.OUTPUT).read_text()


@pytest.mark.slow
def test_a_start_that_comes_late_runs_nothing_and_counts_as_nothing(job):
    late, later = order(job, 1, "touch ran"), order(job, 2)
    allocate(later)
    status, said = allocate(late)
    assert (status, said.count("\n")) == (0, 1)
    assert f"this allocation runs nothing: {later.name}" in said
    assert not (job / "ran").exists()
    end = run_files.read_end(late)
    assert end.never_started
    assert later.name in end.reason
    assert generations.newest(job / "storage" / "training").task == later.name


@pytest.mark.slow
def test_a_second_job_of_a_start_does_not_fence_off_the_first(job):
    run = order(job, 1)
    allocate(run)
    noted = (run / folders.NODE).read_bytes()
    status, said = allocate(run)
    assert (status, "started or given up before" in said) == (127, True)
    assert generations.newest(job / "storage" / "training").number == 1
    assert (run / folders.NODE).read_bytes() == noted
