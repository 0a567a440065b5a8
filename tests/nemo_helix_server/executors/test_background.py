import itertools
import os
import select
import threading
import time

import pytest
from tests.helix_workplace import AtOnce, run_named

from nemo_helix_server.executors import options
from nemo_helix_server.executors.background import ObservedInBackground
from nemo_helix_server.executors.base import (
    AlreadyStartedError,
    ExecutorError,
    Launch,
    NeverPossibleError,
    RunObservation,
    RunState,
)
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_helix_server.executors.request_queue import RequestQueue
from nemo_runs.clock import MovableClock, utc_minute

LAUNCH = Launch(("true",), {})


class Remote(FakeStepExecutor):
    """The fake, some way off: it counts who asks, fails when told to, and can be held up."""

    def __init__(self, machine):
        super().__init__(machine)
        self.asked = []
        self.away = ""
        self.full = ""
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
        self.executor = ObservedInBackground(
            self.remote, self.clock, interval=0.01, stale_after=30, threads=AtOnce()
        )
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
    assert "seen last more than 30 seconds ago" in seen.reason
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
    site.executor = ObservedInBackground(site.remote, site.clock, interval=600, threads=AtOnce())
    site.executor.warm()
    site.executor.start(site.run, LAUNCH)
    site.seen()
    assert readable(site.executor.descriptors(), 60)
    options.drain(site.executor.descriptors())
    site.machine.end(site.run.token, 3)
    os.eventfd_write(wake, 1)
    assert readable(site.executor.descriptors(), 60)
    assert site.seen().exit_status == 3


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def slow(site):
    """A start that goes on until the event is set."""
    site.executor = ObservedInBackground(site.remote, site.clock, interval=0.01, stale_after=30)
    brought, start = threading.Event(), site.remote.start

    def bring(run, launch):
        assert brought.wait(60)
        if site.remote.full:
            raise NeverPossibleError(site.remote.full)
        start(run, launch)

    site.remote.start = bring
    yield brought
    brought.set()


def looked_at(site):
    site.executor.look()
    return site.seen().state


def test_a_start_that_takes_long_holds_nobody_up_and_is_seen_as_waiting(site, slow):
    site.executor.start(site.run, LAUNCH)
    assert site.seen().state is RunState.QUEUED
    assert site.seen().reason == "its files are brought to where it runs"
    assert looked_at(site) is RunState.QUEUED
    site.executor.start(site.run, LAUNCH)
    slow.set()
    until(lambda: looked_at(site) is RunState.STARTING)
    assert site.run.token in site.machine.runs


def test_what_a_late_start_could_not_do_wakes_and_is_raised_when_it_is_asked_for_again(site, slow):
    site.executor.start(site.run, LAUNCH)
    site.remote.full = "there is no space on the cluster"
    assert looked_at(site) is RunState.QUEUED
    options.drain(site.executor.descriptors())
    slow.set()
    assert readable(site.executor.descriptors(), 60)
    until(lambda: site.seen().state is RunState.ABSENT)
    with pytest.raises(NeverPossibleError, match="no space"):
        site.executor.start(site.run, LAUNCH)


def test_a_start_that_is_tried_again_says_why(site, slow):
    site.executor.start(site.run, LAUNCH)
    site.remote.full = "there is no space on the cluster"
    slow.set()
    until(lambda: site.seen().state is RunState.ABSENT)
    with pytest.raises(NeverPossibleError):
        site.executor.start(site.run, LAUNCH)
    slow.clear()
    site.clock.advance(60)
    site.executor.start(site.run, LAUNCH)
    assert site.seen().reason == "its start is tried again: there is no space on the cluster"


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("full", ["", "there is no space on the cluster"])
def test_a_start_that_is_ended_while_its_files_are_brought_never_was(site, slow, end, full):
    """Else a pause of it would wait for its deadline and fail, and a cancel for its limit."""
    site.executor.start(site.run, LAUNCH)
    assert looked_at(site) is RunState.QUEUED
    site.executor.stop(site.run, grace_seconds=0)
    asked(site)
    assert looked_at(site) is RunState.LOST
    site.remote.full = full
    slow.set()
    # as the controller does with what is absent
    ask = {"stop": lambda: site.executor.stop(site.run, grace_seconds=0), "kill": lambda: kill(site)}[end]
    until(lambda: site.run.token not in lane_of(site)._starting)
    until(lambda: looked_at(site) is RunState.LOST or ask())
    assert site.seen().never_started
    assert looked_at(site) is RunState.LOST


def kill(site):
    site.executor.kill(site.run)


def lane_of(site):
    return site.executor._lane(site.run)


def test_many_starts_that_hang_hold_up_nobody(site, slow):
    runs = [run_named(f"task-{number}") for number in range(40)]
    for run in runs:
        site.executor.start(run, LAUNCH)
    assert {site.seen(run).state for run in runs} == {RunState.QUEUED}
    slow.set()
    until(lambda: all(run.token in site.machine.runs for run in runs))


class Silent(Remote):
    """One of which one place does not answer until it is told to."""

    def __init__(self, machine, place):
        super().__init__(machine)
        self.place, self.goes_on, self.asked_there = place, threading.Event(), []

    def reach(self, run, what):
        if run == self.place:
            self.asked_there.append(what)
            assert self.goes_on.wait(60)

    def observe(self, runs):
        runs = list(runs)
        for run in runs:
            self.reach(run, "look")
        return super().observe(runs)

    def start(self, run, launch):
        self.reach(run, "start")
        super().start(run, launch)

    def stop(self, run, *, grace_seconds, stacks=False):
        self.reach(run, "stop")
        super().stop(run, grace_seconds=grace_seconds, stacks=stacks)


def test_a_place_that_does_not_answer_ages_no_look_at_another_nor_holds_up_what_is_asked_there(site):
    silent, other = run_named("task-silent"), run_named("task-other")
    remote = Silent(site.machine, silent)
    executor = ObservedInBackground(remote, site.clock, interval=0.01, place_of=lambda run: run.token)

    def state():
        return executor.observe([silent, other])[other.token].state

    executor.warm()
    try:
        executor.start(silent, LAUNCH)
        executor.stop(silent, grace_seconds=0)
        executor.observe([silent])
        until(lambda: sorted(remote.asked_there) == ["look", "start", "stop"])
        executor.start(other, LAUNCH)
        until(lambda: state() is RunState.STARTING)
        site.clock.advance(300)
        until(lambda: state() is RunState.STARTING)
        executor.stop(other, grace_seconds=7)
        until(lambda: ("stop", 7) in remote.done)
        assert len(remote.asked_there) == 3
    finally:
        remote.goes_on.set()
        executor.close()


def test_a_request_that_had_begun_and_fails_when_the_run_is_over_is_not_made_again(site):
    run, tries = started(site), []

    def stop(_run, *, grace_seconds, stacks):
        tries.append(grace_seconds)
        site.machine.end(run.token, 0)
        site.executor.look()
        raise ExecutorError("the host does not answer")

    site.remote.stop = stop
    site.executor.stop(run, grace_seconds=5)
    asked(site)
    site.clock.advance(60)
    asked(site)
    assert tries == [5]


def test_closing_waits_once_for_all_that_is_under_way(site):
    goes_on, begun, joins = threading.Event(), threading.Semaphore(0), []

    def hangs():
        begun.release()
        goes_on.wait(60)

    queue = RequestQueue(site.clock, lambda: None)
    queue.start()
    for number in range(4):
        queue.put(f"task-{number}", "its end", hangs)
    for thread in queue._threads:
        assert begun.acquire(timeout=60)
        thread.join = lambda timeout, join=thread.join: (joins.append(timeout), join(timeout))
    queue.close(0.1)
    goes_on.set()
    assert len(joins) == 4
    # the first has taken all the time that there was
    assert joins[1:] == [0.0] * 3


def test_a_start_that_fails_is_tried_less_and_less_often_and_says_why_meanwhile(site):
    tries = []

    def fail(_run, _launch):
        tries.append(site.clock.monotonic())
        raise ExecutorError("the login node is away")

    site.remote.start = fail
    for _ in range(200):
        with pytest.raises(ExecutorError, match="login node is away"):
            site.executor.start(site.run, LAUNCH)
        site.clock.advance(1)
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(tries)]
    assert pauses == sorted(pauses)
    assert len(tries) <= 9
    assert pauses[-1] >= 60


def test_a_start_that_is_ended_has_no_pause_left(site):
    def fail(_run, _launch):
        raise ExecutorError("the login node is away")

    start, site.remote.start = site.remote.start, fail
    with pytest.raises(ExecutorError):
        site.executor.start(site.run, LAUNCH)
    site.executor.stop(site.run, grace_seconds=0)
    assert lane_of(site)._tried == {}
    site.remote.start = start


def test_what_fails_again_in_the_same_way_is_logged_once(site, caplog):
    run = started(site)
    site.remote.away = "the network is away"
    site.executor.request_pause(run, seq=1, by="ann", at=1.0)
    for _ in range(100):
        site.executor.carry_out()
        site.clock.advance(1)
    said = [one.getMessage() for one in caplog.records if "tried again" in one.getMessage()]
    assert len(said) == 1


def test_what_was_not_seen_for_some_looks_says_since_when_and_why_though_it_still_counts(site):
    started(site)
    since = utc_minute(site.clock.seconds())
    site.remote.away = "the login node is away"
    site.clock.advance(15)
    site.executor.look()
    assert site.seen().unseen == ""
    site.clock.advance(1)
    assert site.seen().state is RunState.RUNNING
    assert site.seen().unseen == f"not seen since {since}: ExecutorError: the login node is away"
    said = site.seen().unseen
    site.clock.advance(3600)
    assert (site.seen().state, site.seen().unseen) == (RunState.UNKNOWN, said)
    site.remote.away = ""
    site.executor.look()
    assert (site.seen().state, site.seen().unseen) == (RunState.RUNNING, "")


def test_a_look_that_takes_long_is_named_where_nothing_has_failed(site):
    started(site)
    site.clock.advance(20)
    assert site.seen().unseen.endswith(": the look at it takes long")


@pytest.mark.parametrize(
    "seen",
    [
        RunObservation(RunState.UNKNOWN, reason="lab cannot be asked"),
        RunObservation(RunState.RUNNING, unseen="lab cannot be asked"),
    ],
)
def test_a_look_that_learns_nothing_or_not_all_is_no_sight_of_the_run(site, seen):
    started(site)
    since = utc_minute(site.clock.seconds())
    site.remote.observe = lambda runs: {run.token: seen for run in runs}
    for _ in range(3):
        site.clock.advance(60)
        site.seen()
        site.executor.look()
        assert site.seen().unseen == f"not seen since {since}: lab cannot be asked"
