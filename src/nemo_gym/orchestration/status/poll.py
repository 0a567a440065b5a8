"""Looking again and again without being a burden: growing intervals with jitter, short after a change."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.status.gather import Groups, gather
from nemo_gym.orchestration.status.last_status import LastStatus
from nemo_gym.orchestration.status.report import BenchmarkStatus, SubmissionStatus, of_submissions
from nemo_runs.clock import SystemClock

FIRST = 1.0
"""Seconds between the first two looks, and after every change."""
LONGEST = 60.0
_GROWTH = 1.4
_JITTER = 0.2


@dataclass
class Pace:
    """How long to wait for the next look."""

    random: random.Random = field(default_factory=random.Random)
    _interval: float = FIRST

    def next(self, *, changed: bool) -> float:
        """Seconds, a fifth up or down so that many watchers do not ask at once."""
        interval = FIRST if changed else min(self._interval * _GROWTH, LONGEST)
        self._interval = interval
        return interval * self.random.uniform(1 - _JITTER, 1 + _JITTER)


def looking(records: Sequence[SubmissionRecord], machines: Groups) -> Callable[[], list[SubmissionStatus]]:
    """What looks at some submissions, with what was known last where a machine does not answer."""
    memory = LastStatus()

    def look() -> list[SubmissionStatus]:
        found = of_submissions(gather(records, machines).values())
        return memory.completed(found, now=SystemClock().seconds())

    return look


def watch(
    look: Callable[[], Sequence[SubmissionStatus]],
    show: Callable[[Sequence[SubmissionStatus]], None],
    *,
    pace: Pace | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Sequence[SubmissionStatus]:
    """Look and show until every benchmark has ended; returns the last look."""
    pace, before = pace or Pace(), None
    while True:
        found = look()
        show(found)
        if all(_has_ended(status) for submission in found for status in submission.benchmarks):
            return found
        now = _what_counts(found)
        sleep(pace.next(changed=before is not None and now != before))
        before = now


def _has_ended(status: BenchmarkStatus) -> bool:
    """Whether nothing more happens. An end that is only remembered is none: it may have gone on since."""
    whole = status.done is not None and status.done == status.expected
    return status.state.final and (not status.silent or (whole and status.state is BenchmarkState.SUCCEEDED))


def _what_counts(found: Sequence[SubmissionStatus]) -> list[tuple[object, ...]]:
    """What is worth looking sooner again: a change of state or of job, not every rollout."""
    return [
        (status.gym_job_id, status.benchmark, status.state, status.job_id, status.links)
        for submission in found
        for status in submission.benchmarks
    ]
