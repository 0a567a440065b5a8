import itertools
import os
import select
import threading
import time

import pytest
from tests.helix_workplace import run_named

from nemo_helix_server.executors import background, options
from nemo_helix_server.executors.background import ObservedInBackground
from nemo_helix_server.executors.base import (
    AlreadyStartedError,
    ExecutorError,
    Launch,
    NeverPossibleError,
    RunState,
)
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_runs.clock import MovableClock

LAUNCH = Launch(("true",), {})


class Remote(FakeStepExecutor):
    """The fake, some way off: it counts who asks, fails when told to, and can be held up."""

    def __init__(self, machine):
        super().__init__(machine)
        self.asked = []
        self.away = ""
        self.before_answer = lambda: None
        self.done = []
        """What was asked of a run, as it came."""

    def observe(self, runs):
        runs = list(runs)
        self.asked.append([run.token for run in runs])
        if self.away:
            raise ExecutorError(self.away)
        found = super().observe(runs)
        self.before_answer()
        return found

    def stop(self, run, *, grace_seconds, stacks=False):
        self._reach("stop", grace_seconds)
        super().stop(run, grace_seconds=grace_seconds, stacks=stacks)

    def kill(self, run):
        self._reach("kill")
        super().kill(run)

    def request_pause(self, run, *, seq, by, at):
        self._reach("pause", seq)
        super().request_pause(run, seq=seq, by=by, at=at)

    def withdraw_pause(self, run, *, seq, by, at):
        self._reach("go on", seq)
        super().withdraw_pause(run, seq=seq, by=by, at=at)

    def _reach(self, *what):
        if self.away:
            raise ExecutorError(self.away)
        self.done.append(what)


class Site:
    def __init__(self):
        self.clock = MovableClock()
        self.machine = FakeMachine(self.clock)
        self.remote = Remote(self.machine)
        self.executor = ObservedInBackground(self.remote, self.clock, interval=0.01, stale_after=30)
        self.run = run_named("task-1")

    def seen(self, run=None):
        run = run or self.run
        return self.executor.observe([run])[run.token]


@pytest.fixture
def site():
    site = Site()
    yield site
    site.executor.close()


def started(site):
    site.executor.start(site.run, LAUNCH)
    site.machine.begin(site.run.token)
    site.seen()
    site.executor.look()
    return site.run


def readable(descriptors, seconds=0.0):
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def test_nobody_waits_for_a_look_and_what_was_not_looked_at_is_unknown(site):
    site.executor.start(site.run, LAUNCH)
    assert site.seen().state is RunState.UNKNOWN
    assert not site.remote.asked
    site.executor.look()
    assert site.seen().state is RunState.STARTING


def test_a_look_that_is_old_is_none_and_says_why(site):
    started(site)
    site.remote.away = "the scheduler is away"
    site.clock.advance(30)
    site.executor.look()
    assert site.seen().state is RunState.RUNNING
    site.clock.advance(1)
    seen = site.seen()
    assert seen.state is RunState.UNKNOWN
    assert "31 seconds old" in seen.reason
    assert "the scheduler is away" in seen.reason
    site.remote.away = ""
    site.executor.look()
    assert site.seen().state is RunState.RUNNING


def test_an_end_that_was_seen_stays_and_is_not_asked_for_again(site):
    started(site)
    site.machine.end(site.run.token, 7)
    site.executor.look()
    looks = len(site.remote.asked)
    site.remote.away = "the scheduler is away"
    site.clock.advance(20)
    site.seen()
    site.clock.advance(20)
    site.executor.look()
    assert len(site.remote.asked) == looks
    assert site.seen().exit_status == 7


def test_runs_that_nobody_asks_about_any_more_are_forgotten(site):
    started(site)
    site.clock.advance(31)
    looks = len(site.remote.asked)
    site.executor.look()
    assert len(site.remote.asked) == looks


def test_what_was_seen_before_a_start_says_nothing_after_it(site):
    """Else a pause right after the start would end a run that was seen as absent just before."""
    site.seen()
    site.executor.look()
    assert site.seen().state is RunState.ABSENT
    site.executor.start(site.run, LAUNCH)
    assert site.seen().state is RunState.UNKNOWN
    site.executor.look()
    assert site.seen().state is RunState.STARTING


def test_nor_does_a_look_that_was_under_way(site):
    site.seen()
    site.remote.before_answer = lambda: site.executor.start(site.run, LAUNCH)
    site.executor.look()
    site.remote.before_answer = lambda: None
    assert site.seen().state is RunState.UNKNOWN
    site.executor.look()
    assert site.seen().state is RunState.STARTING


def test_only_what_has_changed_wakes(site):
    started(site)
    assert readable(site.executor.descriptors())
    options.drain(site.executor.descriptors())
    site.executor.look()
    assert not readable(site.executor.descriptors())
    site.machine.end(site.run.token, 0)
    site.executor.look()
    assert readable(site.executor.descriptors())


def test_the_thread_looks_by_itself_and_wakes(site):
    site.executor.warm()
    site.executor.start(site.run, LAUNCH)
    site.seen()
    assert readable(site.executor.descriptors(), 60)
    options.drain(site.executor.descriptors())
    site.machine.begin(site.run.token)
    site.machine.end(site.run.token, 3)
    assert readable(site.executor.descriptors(), 60)
    assert site.seen().exit_status == 3


def test_observing_and_closing_do_not_wait_for_a_look_that_hangs(site):
    hangs, goes_on = threading.Event(), threading.Event()

    def hold():
        hangs.set()
        goes_on.wait(60)

    site.remote.before_answer = hold
    site.seen()
    site.executor.warm()
    assert hangs.wait(60)
    assert site.seen().state is RunState.UNKNOWN
    other = ObservedInBackground(site.remote, site.clock)
    other.close()
    site.executor.close(timeout=0)
    # the number of the descriptor is not given away while the look may still write to it
    os.fstat(site.executor.descriptors()[0])
    goes_on.set()


def asked(site):
    """Carry out all that is due."""
    while site.executor.carry_out():
        pass
    return site.remote.done


def test_nobody_waits_for_what_is_asked_of_a_run(site):
    run = started(site)
    site.executor.request_pause(run, seq=1, by="ann", at=1.0)
    site.executor.stop(run, grace_seconds=5)
    assert not site.remote.done
    assert asked(site) == [("pause", 1), ("stop", 5)]
    assert not site.executor.carry_out()


def test_what_cannot_be_asked_now_is_asked_again_later_in_the_same_order(site):
    run = started(site)
    site.remote.away = "the network is away"
    site.executor.request_pause(run, seq=1, by="ann", at=1.0)
    site.executor.stop(run, grace_seconds=5)
    assert asked(site) == []
    site.remote.away = ""
    assert asked(site) == []
    site.clock.advance(1)
    assert asked(site) == [("pause", 1), ("stop", 5)]


def test_it_is_tried_less_and_less_often_while_the_network_is_away(site):
    run = started(site)
    tries = []
    site.remote.stop = lambda _run, grace_seconds, stacks: tries.append(site.clock.monotonic()) or 1 / 0
    site.executor.stop(run, grace_seconds=5)
    for _ in range(200):
        asked(site)
        site.clock.advance(1)
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(tries)]
    assert pauses[:7] == [1, 2, 4, 8, 16, 30, 30]


def test_what_fails_for_one_run_holds_up_no_other(site):
    run, other = started(site), run_named("task-2")
    site.remote.request_pause = lambda *_args, **_more: 1 / 0
    site.executor.request_pause(run, seq=1, by="ann", at=1.0)
    site.executor.stop(other, grace_seconds=0)
    assert asked(site) == [("stop", 0)]


def test_a_newer_request_takes_the_place_of_one_that_has_not_been_made(site):
    run = started(site)
    site.executor.request_pause(run, seq=1, by="ann", at=1.0)
    site.executor.withdraw_pause(run, seq=2, by="ann", at=2.0)
    site.executor.stop(run, grace_seconds=60)
    site.executor.stop(run, grace_seconds=5)
    site.executor.kill(run)
    assert asked(site) == [("go on", 2), ("kill",)]


def test_nothing_is_asked_of_a_run_that_is_over(site):
    run = started(site)
    site.remote.away = "the network is away"
    site.executor.stop(run, grace_seconds=5)
    asked(site)
    site.remote.away = ""
    site.machine.end(run.token, 0)
    site.executor.look()
    site.clock.advance(60)
    assert asked(site) == []


def test_a_run_does_not_start_while_its_end_is_on_its_way(site):
    run = site.run
    site.executor.stop(run, grace_seconds=0)
    with pytest.raises(ExecutorError, match="still on its way"):
        site.executor.start(run, LAUNCH)
    asked(site)
    with pytest.raises(AlreadyStartedError):
        site.executor.start(run, LAUNCH)


def test_the_newest_request_is_known_together_with_the_end(site):
    """Else an exit with status 75 would be taken for one that nobody asked for."""
    run = started(site)
    FakeStepExecutor(site.machine).request_pause(run, seq=3, by="the service before", at=1.0)
    later = ObservedInBackground(site.remote, site.clock)
    later.observe([run])
    with pytest.raises(ExecutorError, match="not been looked at"):
        later.last_request(run)
    site.machine.end(run.token, 75)
    later.look()
    assert later.observe([run])[run.token].exit_status == 75
    assert later.last_request(run) == 3
    later.close()


def test_its_threads_carry_out_what_is_asked(site):
    run = started(site)
    stopped = threading.Event()
    site.remote.stop = lambda _run, grace_seconds, stacks: stopped.set()
    site.executor.warm()
    site.executor.stop(run, grace_seconds=5)
    assert stopped.wait(60)


def test_what_wakes_the_other_executor_makes_it_look(site):
    wake = os.eventfd(0, os.EFD_NONBLOCK)
    site.remote.descriptors = lambda: (wake,)
    site.executor = ObservedInBackground(site.remote, site.clock, interval=600)
    site.executor.warm()
    site.executor.start(site.run, LAUNCH)
    site.seen()
    assert readable(site.executor.descriptors(), 60)
    options.drain(site.executor.descriptors())
    site.machine.end(site.run.token, 3)
    os.eventfd_write(wake, 1)
    assert readable(site.executor.descriptors(), 60)
    assert site.seen().exit_status == 3


@pytest.fixture
def slow(site, monkeypatch):
    """A start that goes on until the event is set, longer than its caller waits."""
    monkeypatch.setattr(background, "_START_SECONDS", 0.01)
    brought, start = threading.Event(), site.remote.start

    def bring(run, launch):
        assert brought.wait(30)
        if site.remote.away:
            raise NeverPossibleError(site.remote.away)
        start(run, launch)

    site.remote.start = bring
    yield brought
    brought.set()


def test_a_start_that_takes_long_holds_nobody_up_and_is_seen_as_waiting(site, slow, monkeypatch):
    site.executor.start(site.run, LAUNCH)
    assert site.seen().state is RunState.QUEUED
    assert site.seen().reason == "its files are brought to where it runs"
    site.executor.look()
    assert site.seen().state is RunState.QUEUED
    slow.set()
    for _ in range(1000):
        site.executor.look()
        if site.seen().state is RunState.STARTING:
            break
        time.sleep(0.001)
    assert site.run.token in site.machine.runs
    monkeypatch.setattr(background, "_START_SECONDS", 30)
    with pytest.raises(AlreadyStartedError):
        site.executor.start(site.run, LAUNCH)


def test_what_a_late_start_could_not_do_is_raised_when_it_is_asked_for_again(site, slow):
    site.executor.start(site.run, LAUNCH)
    site.remote.away = "there is no space on the cluster"
    slow.set()
    for _ in range(1000):
        if site.seen().state is RunState.ABSENT:
            break
        time.sleep(0.001)
    assert site.seen().state is RunState.ABSENT
    with pytest.raises(NeverPossibleError, match="no space"):
        site.executor.start(site.run, LAUNCH)
