"""How long steps have been in their statuses, and silent: by the monotonic clock, which nobody can set.

What was stored is looked at once for each status of a step; from then on this process counts by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field

from nemo_helix_server.jobs.model import Step
from nemo_runs import clock as clocks
from nemo_runs.clock import Clock


@dataclass(slots=True)
class StepAges:
    """Moments on the monotonic clock; they may lie before the start of this process."""

    clock: Clock
    _since: dict[tuple[str, int], float] = field(default_factory=dict)
    """By step and version: the moment at which it came to its status."""
    _signs: dict[str, tuple[Hashable, float]] = field(default_factory=dict)
    """By token: what its files looked like last, and since when."""
    _queued: dict[str, float] = field(default_factory=dict)
    """By token: when it was last seen in the queue of a scheduler."""

    def now(self) -> float:
        """The present moment."""
        return self.clock.monotonic()

    def since(self, step: Step) -> float:
        """When a step came to its status."""
        key = (step.id, step.version)
        if key not in self._since:
            self._since[key] = self.now() - clocks.age(self.clock, step.status_since, step.since_mark)
        return self._since[key]

    def last_change(self, token: str, seen: Hashable) -> float:
        """When what is seen of a start was last something else.

        The first look counts as a change: the dates of files from before cannot be trusted.
        """
        known = self._signs.get(token)
        if known is None or known[0] != seen:
            known = self._signs[token] = (seen, self.now())
        return known[1]

    def last_queued(self, token: str, *, queued: bool, noted: bool) -> float | None:
        """When a start was last seen in the queue of a scheduler; `None` when it never was.

        ``noted``: it was seen there, maybe by an earlier process of the service; the first look then counts.
        """
        if queued or (noted and token not in self._queued):
            self._queued[token] = self.now()
        return self._queued.get(token)

    def forget(self, token: str) -> None:
        """The start is over."""
        self._signs.pop(token, None)
        self._queued.pop(token, None)

    def keep_only(self, steps: Collection[Step]) -> None:
        """Forget all other steps."""
        wanted = {(step.id, step.version) for step in steps}
        self._since = {key: at for key, at in self._since.items() if key in wanted}
