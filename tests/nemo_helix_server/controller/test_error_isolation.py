"""What goes wrong about one job holds up no other, is said, and is over when it works again."""

import errno
import os

import pytest
from tests.helix_workplace import Workplace, shell

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.error_isolation import ErrorIsolation
from nemo_helix_server.errors import UnavailableError
from nemo_helix_server.executors.base import ExecutorError
from nemo_helix_server.executors.fake import FakeStepExecutor
from nemo_helix_server.jobs.states import StatusEvent

pytestmark = pytest.mark.services


@pytest.fixture
def place(tmp_path):
    place = Workplace(tmp_path / "data", executor=FakeStepExecutor())
    yield place
    place.close()


def test_a_failure_is_said_until_a_round_goes_without_it():
    error_isolation = ErrorIsolation()
    for _ in range(2):
        error_isolation.begin()
        with error_isolation.apart("job-1"):
            raise ValueError("odd")
        with error_isolation.apart("job-2"):
            pass
        assert error_isolation.sentences() == ["job-1 cannot be looked after: ValueError: odd"]
    error_isolation.begin()
    error_isolation.begin()
    assert error_isolation.sentences() == []


def test_that_the_database_is_away_concerns_everybody():
    with pytest.raises(UnavailableError), ErrorIsolation().apart("job-1"):
        raise UnavailableError("the database cannot be used now")


@pytest.mark.parametrize("part", ["finder.facts", "starter.launches.request", "progress_ingestion.rest"])
def test_jobs_are_handled_though_one_cannot_be(place, monkeypatch, part):
    odd, other = place.job(shell("true", pause=60), name="odd"), place.job(shell("true", pause=60))
    holder = place.controller
    *path, name = part.split(".")
    for step in path:
        holder = getattr(holder, step)
    real = getattr(holder, name)

    def strange(context, *more):
        if context.job_name == "odd":
            raise RuntimeError("an oddity")
        return real(context, *more)

    monkeypatch.setattr(type(holder), name, lambda _self, context, *more: strange(context, *more))
    machine = place.executor.machine
    for act in (machine.begin, lambda token: machine.end(token, 0)):
        for _ in range(3):
            place.controller.run_once()
        for token in {place.step_of(other).task, place.step_of(odd).task} - {None}:
            act(token)
    place.controller.run_once()
    assert "odd cannot be looked after: RuntimeError: an oddity" in place.controller.problems()
    assert place.get(other).status is Status.COMPLETED
    # what it says of itself is one thing, how it ended is another
    assert (place.get(odd).status is Status.COMPLETED) == (part == "progress_ingestion.rest")


def test_a_job_is_deleted_and_its_space_is_free_though_no_record_can_be_written(place, monkeypatch):
    job = place.job(shell("true"))
    place.controller.run_once()
    place.cancel(job)
    place.controller.run_once()
    place.wait_for(lambda: place.controller.run_once() and place.get(job).status is Status.CANCELLED)
    with place.store.write() as unit:
        unit.statuses.move_job(job, StatusEvent.DELETE_REQUESTED, who="ann", why="asked")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    background = place.controller.background
    monkeypatch.setattr(type(background.mirror), "run", full)
    background.run()
    assert place.get(job) is None
    assert list(place.storage.trash.iterdir()) == []
    assert "No space left" in place.controller.problems()[0]
    monkeypatch.undo()
    background.run()
    background.run()
    assert place.controller.problems() == []


def test_what_fails_is_due_less_and_less_often_and_said_meanwhile():
    now, tries = 0.0, []
    error_isolation = ErrorIsolation(lambda: now)
    for second in range(100):
        now = float(second)
        error_isolation.begin()
        if error_isolation.is_due("job-1"):
            tries.append(second)
            with error_isolation.apart("job-1"):
                raise OSError("away")
        assert error_isolation.sentences() == ["job-1 cannot be looked after: OSError: away"]
    assert tries == [0, 5, 15, 35, 75]
    now = 155.0
    error_isolation.begin()
    assert error_isolation.is_due("job-1")
    with error_isolation.apart("job-1"):
        pass
    assert (error_isolation.waiting, error_isolation.is_due("job-1")) == (0, True)


@pytest.mark.parametrize(
    ("error", "traced"),
    [(OSError("the disk is away"), False), (ExecutorError("away"), False), (ValueError("odd"), True)],
)
def test_what_others_cannot_do_is_said_in_one_line_and_a_fault_of_ours_with_where_it_is(
    caplog, error, traced
):
    error_isolation = ErrorIsolation()
    for _ in range(3):
        error_isolation.begin()
        with error_isolation.apart("job-1"):
            raise error
    assert len(caplog.records) == 1
    assert bool(caplog.records[0].exc_info) is traced
