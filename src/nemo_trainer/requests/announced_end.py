"""Leaving in time: the end of the allocation as it is known now, and what is still to be done before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from nemo_trainer.contract import Allocation, JobContext, read_allocation
from nemo_trainer.requests.signals import Flags
from nemo_trainer.requests.watched_file import WatchedFile

_MARGIN = 1.5
"""A save, and a step, may take so many times what they took."""
_LEAVING = 5.0
"""Seconds from a published checkpoint until the process has ended."""
_LARGEST_SHARE = 0.5
"""At most this share of the time that was left when training began is given up for leaving in time."""


class AnnouncedEnd:
    """Until when training may run, and whether another step still fits before that; costs one ``stat``."""

    def __init__(
        self,
        context: JobContext,
        flags: Flags,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` gives the date, in which ends are announced; steps are measured by ``monotonic``."""
        self._file = WatchedFile(context.allocation_file)
        self._first = context.ends_at
        self._flags = flags
        self._clock = clock
        self._monotonic = monotonic
        self._began = clock()
        self._said: Allocation | None = None
        self._slowest = 0.0
        self._step_began: float | None = None

    @property
    def ends_at(self) -> float | None:
        """The end in seconds since the epoch, as of the last look; `None` = none is known."""
        return self._first if self._said is None else self._said.ends_at

    @property
    def left(self) -> float | None:
        """Seconds until then; `None` = no end is known."""
        return None if self.ends_at is None else max(0.0, self.ends_at - self._clock())

    def look(self) -> bool:
        """Read the allocation file where it has changed; whether the end is another one now."""
        found = self._file.look(read_allocation)
        if found is None:
            return False
        before, self._said = self.ends_at, found
        return before != found.ends_at

    def step_done(self) -> None:
        """Another step is finished, and the next begins; the first one takes longer, and does not count."""
        now = self._monotonic()
        if self._step_began is not None:
            self._slowest = max(self._slowest, now - self._step_began)
        self._step_began = now

    def saved(self) -> None:
        """What took the time until now was a save, not a step."""
        if self._step_began is not None:
            self._step_began = self._monotonic()

    def because(self, save_seconds: float, boundary: int) -> str | None:
        """Why to save and leave after this step or at the next boundary; `None` = there is time for more.

        ``boundary`` is the number of steps until training can stop again.
        """
        if self._flags.ending:
            return "a signal announced the end of its allocation"
        if self._said is not None and self._said.notice:
            return self._said.notice
        left = self.left
        if left is None or self.ends_at is None or left > self._lead(save_seconds, boundary):
            return None
        until = datetime.fromtimestamp(self.ends_at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return f"its allocation ends at {until}"

    def _lead(self, save_seconds: float, boundary: int) -> float:
        """Seconds before the end at which training must not go on to the next place where it can stop."""
        assert self.ends_at is not None
        whole = _MARGIN * (save_seconds + boundary * self._slowest) + _LEAVING
        return min(whole, _LARGEST_SHARE * max(0.0, self.ends_at - self._began))
