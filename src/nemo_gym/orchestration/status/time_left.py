"""How long a benchmark still takes, over all jobs that its chain still needs. Pure.

The work that is left goes at the rate of the last report. What does not fit into the time limit of the
present job waits for another one: each of these takes as long to start as those before did, and waits as long
as those before waited between two of them, where that is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from nemo_gym.chain.evidence import Evidence, Link
from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words

MOST_JOBS: Final = 10_000
"""Beyond these nothing sensible can be said."""
_LEAST_USEFUL: Final = 0.1
"""The least part of a job's time that is taken to be useful, where starting takes nearly all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """All in seconds."""

    work: float
    """At the rate of the last report, without any start or wait."""
    jobs: int
    """That are needed after the one that runs or waits now."""
    startup: float
    """That each of these takes to start."""
    waiting: float | None
    """That each of these waits; `None`: no job of the chain has waited for another yet."""

    @property
    def total(self) -> float:
        """All of it; without waits where none is known."""
        return self.work + self.jobs * (self.startup + (self.waiting or 0.0))

    @property
    def how(self) -> str:
        """What it consists of; empty where the present job does all of it."""
        if not self.jobs:
            return ""
        parts = [
            f"{duration_in_words(self.work)} of work in {counted(self.jobs, 'more job')}",
            f"{duration_in_words(self.startup)} to start each",
            "waiting before each is not known yet"
            if self.waiting is None
            else f"{duration_in_words(self.waiting)} waiting before each, as so far",
        ]
        return ", ".join(parts)


def time_left(known: Evidence, *, running: bool) -> TimeLeft | None:
    """How long it takes until the last rollout; `None` where no report says how fast it goes."""
    progress = known.progress
    if progress is None or progress.expected <= progress.done:
        return None
    age = max(0.0, known.now - progress.updated_at) if progress.updated_at is not None else 0.0
    if running and progress.eta is not None:
        work = max(0.0, progress.eta - age)
    elif progress.rate:
        work = (progress.expected - progress.done) / progress.rate
    else:
        return None
    begun = [link for link in known.links if link.started is not None]
    last = begun[-1] if begun else None
    limit = next((link.walltime for link in reversed(begun) if link.walltime), None)
    startup = _mean([float(link.ready) for link in begun if link.ready is not None]) or 0.0
    waiting = _mean(_waits(begun))
    if limit is None or last is None or last.started is None:
        return TimeLeft(work=work, jobs=0, startup=startup, waiting=waiting)
    useful = max(limit - startup, limit * _LEAST_USEFUL)
    here = max(0.0, last.started + limit - known.now) if running else useful
    jobs = math.ceil(max(0.0, work - here) / useful)
    return TimeLeft(work=work, jobs=jobs, startup=startup, waiting=waiting) if jobs <= MOST_JOBS else None


def _waits(begun: Sequence[Link]) -> list[float]:
    """Seconds between the end of a job and the start of the next one, where both are known."""
    return [
        max(0.0, after.started - (before.started + before.lived))
        for before, after in pairwise(begun)
        if before.started is not None and after.started is not None and before.lived is not None
    ]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
