"""When to save: by steps and by time, where a checkpoint is exact; and what a save takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nemo_trainer.save_intervals import ChosenInterval, IntervalInputs, choose

_DEFAULT_SECONDS = 900.0
_BYTES_PER_SECOND = 100e6
"""What a slow shared disk takes, digests and synchronisation included."""
_SHORTEST_ESTIMATE, _UNKNOWN = 5.0, 60.0
_RECENT = 3
_SHORTEST = 0.001
"""Seconds; the progress has no shorter times."""


class SavePolicy:
    """Says when a periodic checkpoint is due."""

    def __init__(
        self,
        *,
        steps: int | None = None,
        seconds: float | None = _DEFAULT_SECONDS,
        boundary: int = 1,
        max_overhead: float | None = None,
    ) -> None:
        """``steps`` and ``seconds`` between two saves, `None` = not by that; at multiples of ``boundary``.

        With ``max_overhead`` the seconds are chosen instead, see `nemo_trainer.save_intervals`: saves take at
        most this share of the time. Until a session has chosen, ``seconds`` hold.
        """
        self.max_overhead = max_overhead
        self.chosen: ChosenInterval | None = None
        """Why the interval is what it is; `None` where it was given."""
        self._steps = steps
        self._seconds = seconds
        self._boundary = boundary
        self._last_step = 0
        self._last_at: float | None = None

    @property
    def seconds(self) -> float | None:
        """The time between two periodic saves now; `None` = only steps count."""
        return self._seconds

    def start(self, step: int, now: float) -> None:
        """Count from a step (the one training goes on from) and a time on a monotonic clock."""
        self._last_step, self._last_at = step, now

    def choose(self, inputs: IntervalInputs) -> None:
        """Choose the seconds again from what is known now; counting goes on from the last save."""
        self.chosen = choose(inputs)
        self._seconds = self.chosen.seconds

    def due(self, step: int, now: float) -> bool:
        """Whether to save after this step; the first call starts the clock if `start` did not."""
        if self._last_at is None:
            self._last_at = now
        if step <= self._last_step or step % self._boundary:
            return False
        by_steps = self._steps is not None and step // self._steps > self._last_step // self._steps
        return by_steps or (self._seconds is not None and now - self._last_at >= self._seconds)

    def saved(self, step: int, now: float) -> None:
        """A checkpoint of this step was published, for whatever reason."""
        self._last_step, self._last_at = step, now


class SaveTimes:
    """What a save takes: the longest of the last three of this training; before the first, by its size."""

    def __init__(self, before: object = None) -> None:
        """``before`` is what an earlier start of the training has noted, see `to_json`."""
        self._size: int | None = None
        self._seconds: list[float] = []
        if isinstance(before, Mapping) and before.get("measured") is True:
            seconds = before.get("seconds")
            if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < math.inf:
                self._seconds = [float(seconds)]

    @property
    def measured(self) -> bool:
        """Whether a save of this training has been measured."""
        return bool(self._seconds)

    @property
    def seconds(self) -> float:
        """What a save is expected to take; never nothing."""
        if self._seconds:
            return max(_SHORTEST, *self._seconds[-_RECENT:])
        if self._size is None:
            return _UNKNOWN
        return max(_SHORTEST_ESTIMATE, self._size / _BYTES_PER_SECOND)

    def expect(self, size: int) -> None:
        """A checkpoint has about so many bytes."""
        self._size = size

    def saved(self, seconds: float, size: int) -> None:
        """One was saved."""
        self._seconds.append(seconds)
        self._size = size

    def to_json(self) -> Mapping[str, Any]:
        """For the progress, in which a later start finds it."""
        return {"seconds": round(self.seconds, 3), "bytes": self._size, "measured": self.measured}
