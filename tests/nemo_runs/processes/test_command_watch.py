"""The watch over a command: who is ended when, by which signal."""

import time

import pytest

from nemo_runs.processes.command_watch import CommandWatch


class Ended:
    """A command that ends after so many looks; it notes what is sent to it."""

    def __init__(self, looks=10**9):
        self.looks = looks
        self.terms = 0

    def ended(self):
        self.looks -= 1
        return self.looks < 0

    def terminate(self):
        self.terms += 1


class Waits:
    """Signals that never come; it notes how long was waited for them."""

    def __init__(self):
        self.waited = []

    def wait(self, seconds):
        self.waited.append(seconds)


class Duties:
    def __init__(self, act=lambda _now: None, due=()):
        self.act = act
        self._due = due

    def due(self, now):
        yield from self._due


@pytest.fixture
def watch():
    return CommandWatch(Ended(), Waits(), None)


def test_a_command_that_ends_by_itself_gets_no_signal():
    command = Ended(looks=3)
    watch = CommandWatch(command, Waits(), None)
    watch.until_end(Duties())
    assert (command.terms, watch.is_stopping, watch.grace_left(7.0)) == (0, False, 7.0)


def test_it_gets_one_sigterm_and_the_shortest_grace_of_all_calls(watch):
    now = time.monotonic()
    watch.stop(now, 600)
    watch.stop(now, 60)
    watch.stop(now, 300)
    assert watch.command.terms == 1
    assert 0 < watch.grace_left(7.0) <= 60


def test_one_that_is_killed_gets_no_sigterm_first(watch):
    watch.kill_by(time.monotonic())
    watch.until_end(Duties())
    assert (watch.command.terms, watch.grace_left(7.0)) == (0, 0.0)


def test_its_duties_are_done_before_each_wait_and_the_next_one_that_is_due_ends_the_wait():
    done, signals = [], Waits()
    CommandWatch(Ended(looks=2), signals, None).until_end(Duties(done.append, due=[0.25, 3.0]))
    assert (len(done), signals.waited) == (2, [0.25, 0.25])


def test_the_time_limit_ends_the_wait():
    signals = Waits()
    CommandWatch(Ended(looks=1), signals, 2.0).until_end(Duties())
    assert 0 < signals.waited[0] <= 2.0
