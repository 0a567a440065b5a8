"""Time as a value that is passed in, so that tests move it instead of waiting."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """UTC seconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, from an unknown start; only differences mean something."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """See `Clock.now`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()


class MovableClock:
    """A clock that stands still until it is moved, for tests."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        """See `Clock.now`."""
        return self._now

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._monotonic

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the date, as an administrator or a time server does: no time passes."""
        self._now += seconds


def utc_second(seconds: float) -> str:
    """UTC seconds as people read them in tables and headings, ``2027-01-15T08:00:00Z``."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def utc_text(seconds: float) -> str:
    """UTC seconds as ``2027-01-15T08:00:00.000Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
