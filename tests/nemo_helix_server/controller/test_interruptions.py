"""Runs that a scheduler lets wait, preempts or ends, as the fake executor shows them to the controller."""

import hashlib

import pytest
from tests.helix_workplace import Workplace, shell

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_runs.clock import MovableClock
from nemo_trainer import contract

pytestmark = pytest.mark.services


@pytest.fixture
def clock():
    return MovableClock()


@pytest.fixture
def place(tmp_path, clock):
    place = Workplace(tmp_path / "data", clock=clock, executor=FakeStepExecutor(FakeMachine(clock)))
    yield place
    place.close()


def passes(place, count=4):
    for _ in range(count):
        place.controller.run_once()


def token(place, job):
    return place.step_of(job).task


def queued(place):
    job = place.job(shell("true", name="training", pause=60))
    passes(place)
    place.executor.machine.enqueue(token(place, job), "Priority")
    passes(place)
    return job


def active(place, job=None):
    job = job or place.job(shell("true", name="training", pause=60))
    passes(place)
    place.executor.machine.begin(token(place, job))
    passes(place)
    assert place.get(job).status is Status.ACTIVE
    return job


def save(place, job, number):
    folder = place.trainer(job) / "checkpoints" / str(number)
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"weights")
    entry = contract.FileEntry("weights", 7, hashlib.sha256(b"weights").hexdigest())
    manifest = contract.Manifest(
        step=number, files=(entry,), attempt=place.get(job).attempt_id, task=token(place, job)
    )
    contract.write_manifest(folder, manifest)


def test_what_it_waits_for_is_shown_until_it_runs(place):
    job = queued(place)
    assert place.get(job).status is Status.PENDING
    assert place.step_of(job).status_details["queued_reason"] == "Priority"
    assert place.get(job).status_details["queued_reason"] == "Priority"
    place.executor.machine.enqueue(token(place, job), "Resources")
    passes(place)
    assert place.step_of(job).status_details["queued_reason"] == "Resources"
    active(place, job)
    assert "queued_reason" not in place.step_of(job).status_details
    assert "queued_reason" not in place.get(job).status_details


@pytest.mark.parametrize("restarted", [False, True])
def test_days_in_the_queue_are_no_late_start_and_the_limit_counts_from_its_end(place, clock, restarted):
    job = queued(place)
    clock.advance(3 * 86_400)
    passes(place)
    assert place.get(job).status is Status.PENDING
    place.executor.machine.dequeue(token(place, job))
    if restarted:
        place.controller.stop()
        place.controller = place.new_controller()
    passes(place)
    clock.advance(1799)
    passes(place)
    assert not place.executor.machine.runs[token(place, job)].stops
    clock.advance(2)
    passes(place, 1)
    assert place.executor.machine.runs[token(place, job)].stops == [0]


def test_a_pause_of_what_waits_in_the_queue_is_through_at_once(place):
    job = queued(place)
    before = token(place, job)
    place.pause(job)
    passes(place)
    assert place.get(job).status is Status.PAUSED
    assert "queued_reason" not in place.get(job).status_details
    assert place.executor.machine.runs[before].stops == [0]
    place.resume(job)
    passes(place)
    assert token(place, job) != before


def test_so_is_a_cancel(place):
    job = queued(place)
    place.cancel(job)
    passes(place)
    assert place.get(job).status is Status.CANCELLED


def test_a_training_that_drains_ahead_of_its_walltime_goes_on(place):
    job = active(place)
    before = token(place, job)
    save(place, job, 40)
    place.executor.machine.end(before, 75, interrupted="its time on the node was over")
    passes(place)
    assert place.get(job).status is Status.PENDING
    assert token(place, job) != before
    assert "active>resuming" in place.history(job)


def test_a_training_that_is_preempted_without_a_checkpoint_again_and_again_ends(place):
    job = active(place)
    for _ in range(3):
        place.executor.machine.lose(token(place, job), interrupted="it was preempted")
        active(place, job)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    passes(place)
    failed = place.get(job)
    assert (failed.status, failed.reason) == (Status.ERROR, "interrupted_without_progress")
    assert "4 times in a row" in failed.error_details["message"]
    assert "it was preempted" in failed.error_details["message"]
    assert failed.error_details["rerun"] == "begins at its first training step"


def test_checkpoints_in_between_keep_it_going_and_a_damaged_one_does_not(place):
    job = active(place)
    for number in range(1, 8):
        save(place, job, number)
        place.executor.machine.lose(token(place, job), interrupted="it was preempted")
        active(place, job)
    for number in (8, 9, 10):
        save(place, job, number)
        (place.trainer(job) / "checkpoints" / str(number) / "weights").unlink()
        place.executor.machine.lose(token(place, job), interrupted="it was preempted")
        active(place, job)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    passes(place)
    assert place.get(job).reason == "interrupted_without_progress"


def test_a_pause_in_between_begins_the_count_again(place):
    job = active(place)
    for _ in range(3):
        place.executor.machine.lose(token(place, job), interrupted="it was preempted")
        active(place, job)
    place.pause(job)
    passes(place)
    (place.trainer(job) / "progress.json").write_text(
        '{"final_step": 0, "task": "%s", "seq_seen": 1}' % token(place, job)  # noqa: UP031 - JSON has braces
    )
    place.executor.machine.end(token(place, job), 75)
    passes(place)
    assert place.get(job).status is Status.PAUSED
    place.resume(job)
    active(place, job)
    place.executor.machine.lose(token(place, job), interrupted="it was preempted")
    passes(place)
    assert place.get(job).status is Status.PENDING
