"""The clock of the machine's boot: nobody can set it, and it goes on while the machine sleeps."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


def uptime() -> float:
    """Seconds since the machine booted, comparable among all its processes until it boots again."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Span:
    """A beginning with its date, and dates after it that are right by the time that has passed since."""

    began: float = field(default_factory=time.time)
    """UTC seconds since the epoch."""
    _uptime: float = field(default_factory=uptime)

    def now(self) -> float:
        """UTC seconds since the epoch, as if nobody had set the date since the beginning."""
        return self.began + uptime() - self._uptime
