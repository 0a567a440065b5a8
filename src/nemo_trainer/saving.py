"""When to save: by steps and by time, at the boundaries where a checkpoint is exact."""

from __future__ import annotations

_DEFAULT_SECONDS = 900.0


class SavePolicy:
    """Says when a periodic checkpoint is due."""

    def __init__(
        self, *, steps: int | None = None, seconds: float | None = _DEFAULT_SECONDS, boundary: int = 1
    ) -> None:
        """``steps`` and ``seconds`` between two saves, `None` = not by that; at multiples of ``boundary``."""
        self._steps = steps
        self._seconds = seconds
        self._boundary = boundary
        self._last_step = 0
        self._last_at: float | None = None

    def start(self, step: int, now: float) -> None:
        """Count from a step (the one training goes on from) and a time on a monotonic clock."""
        self._last_step, self._last_at = step, now

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
