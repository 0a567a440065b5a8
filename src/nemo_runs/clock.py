"""Time as a value that is passed in, so that tests move it instead of waiting; and moments as text.

The Jobs service counts integer microseconds UTC, as they are stored in its database; evaluations count
seconds.

The date may be set at any moment, forward or back. So how long something has lasted is never the difference
of two dates where that can be helped: beside a date a `Clock.mark` is stored, see `age`.
"""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from nemo_runs import boot_clock

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SecondsClock(Protocol):
    """Where the time comes from, for those who count in seconds."""

    def seconds(self) -> float:
        """UTC seconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, from an unknown start; only differences mean something."""
        ...


class Clock(SecondsClock, Protocol):
    """Where the time comes from."""

    def now(self) -> int:
        """Microseconds UTC since the epoch; may jump."""
        ...

    def boot(self) -> str:
        """What names the machine's current boot."""
        ...

    def uptime(self) -> float:
        """Seconds since that boot; never jumps, and goes on over a restart of the program."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """See `Clock.now`."""
        return time.time_ns() // 1000

    def seconds(self) -> float:
        """See `Clock.seconds`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    def boot(self) -> str:
        """See `Clock.boot`."""
        return _boot_id()

    def uptime(self) -> float:
        """See `Clock.uptime`."""
        return boot_clock.uptime()


class MovableClock:
    """A clock that changes only when it is moved, for tests."""

    def __init__(self, now: int = 1_800_000_000 * SECOND) -> None:
        self._now = now
        self._monotonic = self._uptime = 0.0
        self._boots = 1

    def now(self) -> int:
        """See `Clock.now`."""
        return self._now

    def seconds(self) -> float:
        """See `Clock.seconds`."""
        return self._now / SECOND

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._monotonic

    def boot(self) -> str:
        """See `Clock.boot`."""
        return f"boot-{self._boots}"

    def uptime(self) -> float:
        """See `Clock.uptime`."""
        return self._uptime

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += round(seconds * SECOND)
        self._monotonic += max(seconds, 0.0)
        self._uptime += max(seconds, 0.0)

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back without any time passing."""
        self._now += round(seconds * SECOND)

    def reboot(self, seconds: float = 0.0) -> None:
        """Restart the machine, which takes so long."""
        self._now += round(seconds * SECOND)
        self._boots += 1
        self._monotonic = self._uptime = 0.0


@dataclass(slots=True)
class GrowingPause:
    """When what fails again and again is due: after twice as long each time, up to a limit; in seconds."""

    first: float
    longest: float
    pause: float = 0.0
    """The newest one; 0 while nothing has failed."""
    due: float = -math.inf
    """By the monotonic clock of the one who asks."""

    def is_due(self, now: float) -> bool:
        """Whether to try it."""
        return now >= self.due

    def fail(self, now: float) -> None:
        """It has failed: the next pause begins."""
        self.pause = min(2 * self.pause, self.longest) if self.pause else self.first
        self.due = now + self.pause


def mark(clock: Clock) -> str:
    """This moment as it is stored beside its date: the boot, and the seconds since it."""
    return f"{clock.boot()} {clock.uptime():.6f}"


def age(clock: Clock, since: int, marked: str | None) -> float:
    """Seconds since a moment that was stored with its date and its mark, never less than 0.

    Within one boot of the machine the date does not matter; over a restart of the machine it is all there is.
    """
    boot, _, uptime = (marked or "").partition(" ")
    if uptime and boot == clock.boot():
        return max(0.0, round(clock.uptime() - float(uptime), 6))
    return max(0.0, (clock.now() - since) / SECOND)


def turn(clock: Clock, since: int, marked: str | None) -> tuple[float, int]:
    """A place in a queue for what has waited since a moment, smallest first.

    Seconds since this boot of the machine, and the date, which decides about what waited before that already.
    """
    boot, _, uptime = (marked or "").partition(" ")
    return (float(uptime) if uptime and boot == clock.boot() else 0.0), since


@functools.cache
def _boot_id() -> str:
    from nemo_runs.processes import process_table  # noqa: PLC0415 - start-up: few clocks are asked for it

    return process_table.boot_id()


def wire(moment: int) -> str:
    """A moment as it is written in responses: ISO 8601, UTC, ``Z``."""
    return (EPOCH + timedelta(microseconds=moment)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(text: str) -> int:
    """Microseconds UTC of an ISO 8601 text; without an offset it is UTC. Raises ValueError."""
    read = datetime.fromisoformat(text)
    aware = read if read.tzinfo else read.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def utc_text(seconds: float) -> str:
    """UTC seconds as they are written in files, ``2027-01-15T08:00:00.000Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_minute(seconds: float) -> str:
    """UTC seconds as people read them in sentences, ``2027-01-15 08:00 UTC``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def utc_second(seconds: float) -> str:
    """UTC seconds as people read them in tables and headings, ``2027-01-15T08:00:00Z``."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
