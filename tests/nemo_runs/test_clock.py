"""How long something has lasted, and its place in a queue, whatever is done to the date."""

import subprocess
import sys

import pytest

from nemo_runs import clock as clocks
from nemo_runs.clock import SECOND, GrowingPause, MovableClock, SystemClock


@pytest.mark.parametrize("jump", [-86_400, -1, 1, 86_400])
def test_within_a_boot_the_date_does_not_matter(jump):
    clock = MovableClock()
    at, marked = clock.now(), clocks.mark(clock)
    clock.advance(5)
    clock.step(jump)
    assert clocks.age(clock, at, marked) == 5


def test_over_a_restart_and_without_a_mark_the_date_counts_and_nothing_is_younger_than_0():
    clock = MovableClock()
    at, marked = clock.now(), clocks.mark(clock)
    clock.advance(5)
    clock.reboot(60)
    assert clocks.age(clock, at, marked) == 65
    assert clocks.age(clock, at, None) == 65
    clock.step(-1000)
    assert clocks.age(clock, at, marked) == 0


def test_who_came_first_stays_first():
    clock = MovableClock()
    places = []
    for jump in (0, -3600, 7200, -86_400):
        clock.step(jump)
        clock.advance(1)
        places.append(clocks.turn(clock, clock.now(), clocks.mark(clock)))
    assert places == sorted(places)
    before = (clock.now() - 10 * SECOND, clocks.mark(clock))
    clock.reboot()
    assert clocks.turn(clock, *before) < clocks.turn(clock, clock.now(), clocks.mark(clock))


def test_the_machine_s_mark_means_the_same_in_every_process():
    clock = SystemClock()
    before = clocks.mark(clock)
    program = "from nemo_runs.clock import *; print(mark(SystemClock()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    (boot, first), (other, second) = before.split(), done.stdout.split()
    assert boot == other
    assert float(first) < float(second) < clock.uptime()
    assert len(before) <= 64


def test_a_clock_that_is_set_lets_no_time_pass() -> None:
    clock = MovableClock()
    clock.step(-3600)
    assert (clock.seconds(), clock.monotonic()) == (1_799_996_400.0, 0.0)
    clock.advance(5)
    assert (clock.seconds(), clock.monotonic()) == (1_799_996_405.0, 5.0)


def test_seconds_and_microseconds_are_the_same_moment():
    clock = MovableClock(1_800_000_000_250_000)
    assert (clock.seconds(), clock.now()) == (1_800_000_000.25, 1_800_000_000_250_000)
    assert abs(SystemClock().seconds() - SystemClock().now() / SECOND) < 3600
    assert clocks.utc_text(clock.seconds()) == "2027-01-15T08:00:00.250Z"
    assert clocks.utc_second(clock.seconds()) == "2027-01-15T08:00:00Z"
    assert clocks.wire(clock.now()) == "2027-01-15T08:00:00.250000Z"


def test_a_growing_pause_is_twice_as_long_each_time_up_to_its_limit():
    pause, now, pauses = GrowingPause(5, 30), 0.0, []
    assert pause.is_due(now)
    for _ in range(5):
        pause.fail(now)
        pauses.append(pause.pause)
        assert not pause.is_due(now + pause.pause - 1)
        now += pause.pause
        assert pause.is_due(now)
    assert pauses == [5, 10, 20, 30, 30]
