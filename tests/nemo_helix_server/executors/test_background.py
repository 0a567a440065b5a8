import os
import select
import threading

import pytest

from nemo_helix_server.executors.background import ObservedInBackground
from nemo_helix_server.executors.base import ExecutorError, Launch, RunState
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.clock import MovableClock

LAUNCH = Launch(("true",), {})


class Remote(FakeStepExecutor):
    """The fake, some way off: it counts who asks, fails when told to, and can be held up."""

    def __init__(self, machine):
        super().__init__(machine)
        self.asked = []
        self.away = ""
        self.before_answer = lambda: None

    def observe(self, runs):
        runs = list(runs)
        self.asked.append([run.token for run in runs])
        if self.away:
            raise ExecutorError(self.away)
        found = super().observe(runs)
        self.before_answer()
        return found


class Site:
    def __init__(self, folder):
        self.clock = MovableClock()
        self.machine = FakeMachine(self.clock)
        self.remote = Remote(self.machine)
        self.executor = ObservedInBackground(self.remote, self.clock, interval=0.01, stale_after=30)
        self.run = StepRun("task-1", folder)

    def seen(self, run=None):
        run = run or self.run
        return self.executor.observe([run])[run.token]


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
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
    site.executor.drain()
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
    site.executor.drain()
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
    site.executor.close(patience=0)
    # the number of the descriptor is not given away while the look may still write to it
    os.fstat(site.executor.descriptors()[0])
    goes_on.set()
