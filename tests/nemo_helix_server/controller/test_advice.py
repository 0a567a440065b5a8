"""What is advised after a failure works: it is followed here, on real processes."""

import re
import sys

import pytest
from tests.helix_workplace import Workplace, run_named, shell, step, training

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.base import CapacityRequest, ResourceNeeds, WaitingForCapacity
from nemo_helix_server.executors.capacity import LeasedCapacity
from nemo_runs.leases import machine_leases

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def place(tmp_path):
    place = Workplace(tmp_path / "data").start()
    yield place
    place.close()


def failure(place, job):
    place.until(job, Status.ERROR)
    return place.step_of(job).error_details


def example(place, *words, **changes):
    """The example training with options that a file says at each start."""
    command = f"exec {sys.executable} -m nemo_trainer.example --save-every 5 {' '.join(words)}"
    return shell(command, name="training", pause=60, **changes)


def test_changed_data_are_put_back(place, tmp_path):
    seed = tmp_path / "seed"
    seed.write_text("1")
    job = place.job(example(place, "--steps 20 --fail-at 12", f"--seed $(cat {seed})"))
    assert failure(place, job)["rerun"] == "goes on from its checkpoint of step 10"
    seed.write_text("2")
    place.rerun(job)
    said = failure(place, job)
    assert "has changed since its checkpoint was saved" in said["message"]
    assert "put back what was there" in said["advice"]
    assert "another checkpoint does not help" in said["advice"]
    seed.write_text("1")
    place.rerun(job)
    place.until(job, Status.COMPLETED)


def test_another_checkpoint_is_named_where_the_one_that_was_named_is_damaged(place):
    job = place.job(training(20, 0.0, "--save-every", 5, "--keep", 3, "--fail-at", 17))
    failure(place, job)
    with place.store.read() as unit:
        newest, older, *_ = (found.id for found in unit.checkpoints.of_job(job) if found.present)
    state = place.trainer(job) / "checkpoints" / newest.split("-")[1] / "state.json"
    state.write_bytes(b" " * state.stat().st_size)
    place.rerun(job, checkpoint=newest)
    said = failure(place, job)
    assert "the checkpoint that was named could not be used" in said["message"]
    name = place.get(job).name
    assert f"`nemo jobs checkpoints list {name} --workspace default`" in said["advice"]
    assert f"`nemo jobs rerun {name} --workspace default --checkpoint ID`" in said["advice"]
    place.rerun(job, checkpoint=older)
    place.until(job, Status.COMPLETED)


def test_a_broken_specification_is_not_to_be_run_again(place):
    job = place.job(training(20, 0.0, "--no-such-option"))
    said = failure(place, job)
    assert said["rerun"] is None
    assert said["advice"] == "correct the specification in a new job"


def test_a_failure_before_the_first_checkpoint_promises_none(place):
    job = place.job(training(20, 0.0, "--fail-at", 3))
    assert failure(place, job)["rerun"] == "begins at its first training step"


def test_a_missing_module_is_named_and_once_it_is_installed_a_rerun_completes(place, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    command = [sys.executable, "-c", "import odd_module"]
    job = place.job(step(command, name="main", environment=[("PYTHONPATH", str(site))]))
    said = failure(place, job)
    assert "the Python module odd_module, which it needs, is not installed" in said["message"]
    assert re.search(f"install it for {re.escape(sys.executable)} and use `nemo jobs rerun", said["advice"])
    assert said["rerun"] == "runs the step main again"
    (site / "odd_module.py").touch()
    place.rerun(job)
    place.until(job, Status.COMPLETED)


def test_a_command_that_is_no_program_is_named_and_one_that_is_there_is_not_to_be_made_one(place, tmp_path):
    program = tmp_path / "program"
    job = place.job(step([str(program)]))
    said = failure(place, job)
    assert said["message"].endswith(f"No such file or directory: {program} cannot be run there")
    assert said["advice"].startswith(f"make {program} a program that can be run where the step runs and use")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    place.rerun(job)
    place.until(job, Status.COMPLETED)
    long = place.job(shell(f"true {'x' * 200_000}"))
    said = failure(place, long)
    assert said["message"].endswith("Argument list too long")
    assert "advice" not in said


def test_a_full_disk_is_freed(place):
    job = place.job(training(20, 0.0, "--save-every", 5, "--fail-at", 12, "--fail-how", "disk"))
    said = failure(place, job)
    assert said["type"] == "disk_full"
    assert said["advice"].startswith("free space and use `nemo jobs rerun")
    place.rerun(job)
    place.until(job, Status.COMPLETED)


def test_a_time_limit_goes_on_for_as_long_again_where_there_is_a_checkpoint(tmp_path):
    place = Workplace(tmp_path / "data", profile={"ttl_seconds_active": 2}).start()
    try:
        job = place.job(training(40, 0.1, "--save-every", 2))
        said = failure(place, job)
        assert (said["type"], "goes on for as long again" in said["advice"]) == ("time_limit", True)
        for _ in range(8):
            place.rerun(job)
            if place.until(job, Status.ERROR, Status.COMPLETED).status is Status.COMPLETED:
                break
        assert place.get(job).status is Status.COMPLETED
        other = place.job(shell("sleep 60"))
        said = failure(place, other)
        assert "there is no checkpoint to go on from: raise ttl_seconds_active" in said["advice"]
    finally:
        place.close()


def test_a_book_of_leases_that_cannot_be_read_is_waited_for(tmp_path):
    pool = machine_leases.Pool(tmp_path, (), 1)
    pool.holders()
    (lock,) = tmp_path.glob("*.lock")
    lock.with_suffix(".json").write_text("{")
    room = LeasedCapacity(pool, tmp_path)
    answer = room.admit(
        CapacityRequest(run_named("task-1"), "default/j", "default", ResourceNeeds(), 1, (0.0, 0))
    )
    assert isinstance(answer, WaitingForCapacity)
    assert "is damaged" in answer.reason
