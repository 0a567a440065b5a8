"""The watch over one command: it waits for the command's end, and ends it by SIGTERM, a grace and SIGKILL.

What is due meanwhile, and what an end means, is for the supervisor that has the watch. Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from nemo_runs.processes.supervised import Command, Signals

_LONGEST_WAIT = 5.0


class Duties(Protocol):
    """What a supervisor does while its command runs."""

    def act(self, now: float) -> None:
        """Do what is due at a moment of the monotonic clock."""
        ...

    def due(self, now: float) -> Iterator[float]:
        """In how many seconds something else is due, at the latest."""
        ...


class CommandWatch:
    """Waits for the end of a command, and ends it when it is asked to."""

    def __init__(self, command: Command, signals: Signals, time_limit: float | None) -> None:
        """``time_limit``: seconds from now; `None`: no limit."""
        self.command = command
        self.signals = signals
        self.end_at = float("inf") if time_limit is None else time.monotonic() + time_limit
        """When its time limit is reached, on the monotonic clock."""
        self._kill_at: float | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether the end of the command was asked for."""
        return self._kill_at is not None

    def until_end(self, duties: Duties) -> None:
        """Return when the command has ended, or when its grace is over."""
        while not self.command.ended():
            now = time.monotonic()
            duties.act(now)
            if self._kill_at is not None and now >= self._kill_at:
                return
            self.signals.wait(max(0.0, min(self._pauses(duties, now))))

    def stop(self, now: float, grace: float) -> None:
        """Send SIGTERM to the command alone, once; its tree has the least ``grace`` (s) of all calls."""
        if self._kill_at is None:
            self.command.terminate()
        self.kill_by(now + grace)

    def kill_by(self, at: float) -> None:
        """The tree is killed then, if not earlier."""
        self._kill_at = at if self._kill_at is None else min(self._kill_at, at)

    def grace_left(self, otherwise: float) -> float:
        """Seconds that the rest of the tree may still take; ``otherwise`` when nobody stopped the command."""
        return otherwise if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())

    def _pauses(self, duties: Duties, now: float) -> Iterator[float]:
        yield _LONGEST_WAIT
        yield (self.end_at if self._kill_at is None else self._kill_at) - now
        yield from duties.due(now)
