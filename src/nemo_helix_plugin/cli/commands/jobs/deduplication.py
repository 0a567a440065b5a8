"""Which log lines were shown already, when a job is watched again after a pause."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_helix_plugin.jobs.watch_types import JobLogEvent


class Deduplication:
    """Takes each line once over several rounds, each of which may bring the whole log again."""

    def __init__(self, *, since: datetime | None = None) -> None:
        self._since = since
        self._shown: Counter[int] = Counter()
        self._round: Counter[int] = Counter()
        self._rounds = 0

    def begin(self) -> None:
        """A round begins."""
        self._round = Counter()
        self._rounds += 1

    def takes(self, event: JobLogEvent) -> bool:
        """Whether this line was not shown yet; then it counts as shown.

        After the first round, lines from before ``since`` are history that nobody asked for.
        """
        key = hash((event.task_id, event.timestamp, event.message))
        self._round[key] += 1
        old = self._since is not None and self._rounds > 1 and event.timestamp < self._since
        if old or self._round[key] <= self._shown[key]:
            return False
        self._shown[key] = self._round[key]
        return True
