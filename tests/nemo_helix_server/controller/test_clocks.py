"""Whoever sets the clock, forward or back, moves no deadline, and nobody in the queue."""

import pytest
from tests.helix_workplace import Workplace, shell

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_runs.clock import MovableClock

JUMPS = (-86_400, -60, 60, 86_400)
pytestmark = [pytest.mark.parametrize("jump", JUMPS), pytest.mark.services]


@pytest.fixture
def clock():
    return MovableClock()


@pytest.fixture
def place(tmp_path, clock):
    place = Workplace(tmp_path / "data", clock=clock, executor=FakeStepExecutor(FakeMachine(clock, slots=1)))
    yield place
    place.close()


def passes(place, count=3):
    for _ in range(count):
        place.controller.run_once()


def active(place, script="true", **changes):
    job = place.job(shell(script, name="training", **changes))
    passes(place)
    place.executor.machine.begin(token(place, job))
    passes(place)
    assert place.get(job).status is Status.ACTIVE
    return job


def token(place, job):
    return place.step_of(job).task


def stops(place, job):
    return len(place.executor.machine.runs[token(place, job)].stops)


def restart_the_service(place):
    place.controller.stop()
    place.controller = place.new_controller()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pause_has_its_deadline(place, clock, jump, restarted):
    job = active(place, pause=8)
    place.pause(job)
    passes(place)
    clock.step(jump)
    if restarted:
        restart_the_service(place)
    clock.advance(7.9)
    passes(place)
    assert (place.get(job).status, stops(place, job)) == (Status.PAUSING, 0)
    clock.advance(0.2)
    passes(place, 1)
    assert stops(place, job) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cancel_has_its_deadline(place, clock, jump, restarted):
    job = active(place)
    place.cancel(job)
    passes(place)
    clock.step(jump)
    if restarted:
        restart_the_service(place)
    graces = place.executor.machine.runs[token(place, job)].stops
    clock.advance(59)
    passes(place)
    assert 0.0 not in graces
    clock.advance(2)
    passes(place)
    assert graces[-1] == 0.0


def test_a_start_has_its_deadline(place, clock, jump):
    job = place.job(shell("true"))
    passes(place)
    clock.step(jump)
    clock.advance(1799)
    passes(place)
    assert (place.get(job).status, stops(place, job)) == (Status.PENDING, 0)
    clock.advance(2)
    passes(place, 1)
    assert stops(place, job) == 1


def test_making_a_job_has_its_deadline(place, clock, jump, monkeypatch):
    def refused(*_arguments):
        raise OSError("read-only file system")

    monkeypatch.setattr(place.storage, "prepare", refused)
    job = place.job(shell("true"))
    passes(place)
    clock.step(jump)
    clock.advance(599)
    passes(place)
    assert place.get(job).status is Status.CREATION_PENDING
    clock.advance(2)
    passes(place)
    assert place.get(job).reason == "creation_failed"


def test_silence_is_counted_in_seconds_that_have_passed(place, clock, jump):
    job = active(place, staleness=50, pause=60)
    clock.advance(30)
    passes(place)
    clock.step(jump)
    progress = place.trainer(job) / "progress.json"
    progress.write_text('{"step": 1}')
    passes(place)
    clock.advance(49)
    passes(place)
    assert stops(place, job) == 0
    clock.advance(2)
    passes(place, 1)
    assert stops(place, job) == 1


def test_after_a_restart_of_the_service_silence_is_counted_from_there(place, clock, jump):
    job = active(place, staleness=50, pause=60)
    clock.advance(40)
    clock.step(jump)
    restart_the_service(place)
    passes(place)
    clock.advance(40)
    passes(place)
    assert stops(place, job) == 0
    clock.advance(11)
    passes(place, 1)
    assert stops(place, job) == 1


def test_who_came_first_is_first(place, clock, jump):
    holder = active(place)
    clock.advance(1)
    first = place.job(shell("true"))
    passes(place)
    clock.step(jump)
    clock.advance(1)
    second = place.job(shell("true"))
    passes(place)
    place.executor.machine.end(token(place, holder), 0)
    passes(place)
    assert (place.get(first).status, place.get(second).status) == (Status.PENDING, Status.QUEUED)


def test_one_that_is_resumed_goes_to_the_end_and_holds_up_nobody(place, clock, jump):
    holder = active(place)
    clock.advance(1)
    resumed = place.job(shell("true", name="training", pause=60))
    passes(place)
    place.pause(resumed)
    clock.step(jump)
    clock.advance(1)
    other = place.job(shell("true"))
    passes(place)
    clock.advance(1)
    place.resume(resumed)
    passes(place)
    assert place.get(resumed).status is Status.QUEUED
    place.executor.machine.end(token(place, holder), 0)
    passes(place)
    assert (place.get(other).status, place.get(resumed).status) == (Status.PENDING, Status.QUEUED)
    place.executor.machine.begin(token(place, other))
    place.executor.machine.end(token(place, other), 0)
    passes(place)
    assert place.get(resumed).status is Status.PENDING
