"""Time as a value that is passed in: integer microseconds UTC, as they stand in the database."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> int:
        """Microseconds UTC since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, from an unknown start; only differences mean something."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """See `Clock.now`."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()


class MovableClock:
    """A clock that stands still until it is moved, for tests."""

    def __init__(self, now: int = 1_800_000_000 * SECOND) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> int:
        """See `Clock.now`."""
        return self._now

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += round(seconds * SECOND)
        self._monotonic += max(seconds, 0.0)

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back without any time passing."""
        self._now += round(seconds * SECOND)


def wire(moment: int) -> str:
    """A moment as it stands in responses: ISO 8601, UTC, ``Z``."""
    return (EPOCH + timedelta(microseconds=moment)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(text: str) -> int:
    """Microseconds UTC of an ISO 8601 text; without an offset it is UTC. Raises ValueError."""
    read = datetime.fromisoformat(text)
    aware = read if read.tzinfo else read.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)
