"""Users, controller, retention, crashes and clocks in any order: every job has one story and one end."""

from __future__ import annotations

import random
import tempfile
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.nemo_helix_server.worlds import ANNA, DOWNLOAD, TRAINING, World, sqlite_world

from nemo_helix_plugin.jobs.types import HelixJobStatus as S
from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs import retention, states
from nemo_helix_server.jobs.model import Step, TransitionRow
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.service import responses
from nemo_helix_server.store.queries import TransitionQuery

NAME = "job-1"
USER = ("pause", "resume", "cancel", "rerun")
CONTROLLERS = [
    StatusEvent.DEFERRED,
    StatusEvent.ACCEPTED,
    StatusEvent.STARTED,
    StatusEvent.FINISHED,
    StatusEvent.FAILED,
    StatusEvent.INTERRUPTED,
    StatusEvent.PAUSE_DEADLINE_MISSED,
    StatusEvent.CHECKPOINT_VERIFIED,
    StatusEvent.STOPPED,
    StatusEvent.OUTPUTS_VERIFIED,
]


class CrashError(Exception):
    """The process is gone in the middle of a unit."""


def story(world: World, name: str = NAME) -> list[TransitionRow]:
    job = world.job(name)
    with world.store.read() as reader:
        return reader.transitions.since(TransitionQuery(job_id=job.id, limit=100_000))


def check_story(world: World, name: str = NAME) -> None:
    """Each thing's transitions are one unbroken chain of edges of the table, and its row is their end."""
    job = world.job(name)
    with world.store.read() as reader:
        attempts = reader.attempts.of_job(job.id).items
        steps = [step for attempt in attempts for step in reader.steps.of_attempt(attempt.id)]
    rows = story(world, name)
    chains = {step.id: [row for row in rows if row.step_id == step.id] for step in steps}
    for step in steps:
        chain = chains[step.id]
        assert chain[0].origin is None
        assert chain[-1].to is step.status
        for before, after in pairwise(chain):
            assert after.origin is before.to
            assert states.after(before.to, StatusEvent(after.event)) is after.to
        assert sum(row.to.is_terminal for row in chain) <= 1
    of_job = [row for row in rows if row.step_id is None]
    assert of_job[-1].to is job.status
    assert all(after.origin is before.to for before, after in pairwise(of_job))
    for attempt in attempts:
        own = [step.status for step in steps if step.attempt_id == attempt.id]
        assert attempt.status is states.derive_attempt(own, len(attempt.platform_spec["steps"]))
    assert not (job.status is S.PAUSED and job.storage_reclaimed_at is not None)


class Jobs(RuleBasedStateMachine):
    """One job, and everything that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = sqlite_world(Path(self.folder.name))
        self.world.create(NAME, steps=(DOWNLOAD, TRAINING))
        self.seen: Step = self.world.step()
        self.count = 0

    def teardown(self) -> None:
        self.world.store.close()
        self.folder.cleanup()

    @rule(action=st.sampled_from(USER))
    def a_user_asks(self, action: str) -> None:
        before = self.world.job()
        try:
            getattr(self.world.service, action)(ANNA, "default", NAME)
        except StateConflictError as refused:
            assert NAME in refused.detail  # noqa: PT017 - either way is right
            assert self.world.job() == before

    @rule(event=st.sampled_from(CONTROLLERS))
    def the_controller_acts(self, event: StatusEvent) -> None:
        step = self.world.step()
        self._move(step, event, possible=states.after(step.status, event) is not None)

    @rule()
    def the_controller_looks(self) -> None:
        self.seen = self.world.step()

    @rule(event=st.sampled_from(CONTROLLERS))
    def the_controller_acts_on_what_it_saw_before(self, event: StatusEvent) -> None:
        now = self.world.step()
        fresh = (now.id, now.version) == (self.seen.id, self.seen.version)
        self._move(self.seen, event, possible=fresh and states.after(now.status, event) is not None)

    def _move(self, step: Step, event: StatusEvent, *, possible: bool) -> None:
        self.count += 1
        task = f"task-{self.count}" if event is StatusEvent.ACCEPTED else None
        with self.world.store.write() as writer:
            moved = writer.statuses.move(
                step.id, StatusChange(event, version=step.version, who="c", why="test", task=task)
            )
        assert (moved is not None) is possible

    @rule(event=st.sampled_from(CONTROLLERS))
    def the_process_dies_inside_of_a_unit(self, event: StatusEvent) -> None:
        before = self.world.job(), self.world.step(), len(story(self.world))
        with pytest.raises(CrashError), self.world.store.write() as writer:  # noqa: PT012 - the unit is the subject
            writer.statuses.move(before[1].id, StatusChange(event, who="c", why="test"))
            raise CrashError
        assert (self.world.job(), self.world.step(), len(story(self.world))) == before

    @rule(seconds=st.sampled_from([1, 3600, 4 * 3600, 8 * 24 * 3600]))
    def time_passes(self, seconds: int) -> None:
        self.world.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-3600, -1, 60]))
    def the_clock_is_set(self, seconds: int) -> None:
        self.world.clock.step(seconds)

    @rule()
    def retention_passes(self) -> None:
        with self.world.store.write() as writer:
            job = writer.jobs.find("default", NAME)
            assert job is not None
            ends_at = responses.expiry(job, self.world.limits)
            stopped = {"stopped_at": job.stopped_at, "stopped_mark": job.stopped_mark}
            if not retention.expired(ends_at, **stopped, clock=self.world.clock):
                return
            step = writer.steps.current(job.attempt_id)
            if job.status is S.PAUSED:
                assert (
                    writer.statuses.move(
                        step.id, StatusChange(StatusEvent.WINDOW_EXPIRED, who="retention", why="test")
                    )
                    is not None
                )
            assert writer.jobs.reclaim_storage(job.id) is not None

    @invariant()
    def it_has_one_story(self) -> None:
        check_story(self.world)


Jobs.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    derandomize=True,
)
TestJobs = pytest.mark.slow(Jobs.TestCase)


def settle(world: World, name: str) -> S:
    """What the controller would do until nothing is left to do."""
    ends = {
        S.PENDING: StatusEvent.STARTED,
        S.ACTIVE: StatusEvent.FINISHED,
        S.PAUSING: StatusEvent.PAUSE_DEADLINE_MISSED,
        S.PAUSED: StatusEvent.WINDOW_EXPIRED,
        S.RESUMING: StatusEvent.ACCEPTED,
        S.CANCELLING: StatusEvent.STOPPED,
        S.QUEUED: StatusEvent.ACCEPTED,
        S.CREATED: StatusEvent.ACCEPTED,
    }
    while not world.step(name).status.is_terminal:
        world.move(ends[world.step(name).status], name)
    return world.step(name).status


def act(world: World, name: str, what: str, seen: Step) -> None:
    """One of those who race: a user, or the controller with what it saw before."""
    if what in USER:
        try:
            getattr(world.service, what)(ANNA, "default", name)
        except StateConflictError:
            return
    elif what == "crash":
        with pytest.raises(CrashError), world.store.write() as writer:  # noqa: PT012 - the unit is the subject
            writer.statuses.move(seen.id, StatusChange(StatusEvent.FAILED, who="c", why="test"))
            raise CrashError
    else:
        with world.store.write() as writer:
            writer.statuses.move(
                seen.id, StatusChange(StatusEvent(what), version=seen.version, who="c", why="test")
            )


RACERS = ["pause", "resume", "cancel", "finished", "failed", "checkpoint_verified", "stopped", "crash"]


@pytest.mark.slow
def test_pause_resume_cancel_finish_and_crash_in_any_order_end_in_one_state(world: World) -> None:
    chance = random.Random(4)
    for number in range(200):
        name = f"job-{number}"
        world.create(name)
        world.bring_to(S.ACTIVE, name)
        order = chance.sample(RACERS, k=len(RACERS)) + chance.choices(RACERS, k=4)
        seen = world.step(name)
        for what in order:
            if chance.random() < 0.6:
                seen = world.step(name)
            act(world, name, what, seen)
        settle(world, name)
        check_story(world, name)


def race(
    world: World, name: str, what: str, seen: Step, barrier: threading.Barrier, errors: list[BaseException]
) -> None:
    try:
        barrier.wait()
        act(world, name, what, seen)
    except BaseException as error:  # noqa: BLE001 - shown by the main thread
        errors.append(error)


def test_threads_that_race_end_in_one_state(world: World) -> None:
    for number in range(12):
        name = f"job-{number}"
        world.create(name)
        world.bring_to(S.ACTIVE, name)
        seen = world.step(name)
        racers = ["pause", "cancel", "finished", "resume", "failed"]
        barrier = threading.Barrier(len(racers))
        errors: list[BaseException] = []

        threads = [
            threading.Thread(target=race, args=(world, name, what, seen, barrier, errors)) for what in racers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        settle(world, name)
        check_story(world, name)
        assert sum(row.to.is_terminal for row in story(world, name) if row.step_id is None) == 1
