"""What every benchmark is doing: state, reason, progress, the age of what is not fresh, what to do next.

Pure. The state follows the last run that *started*; an executor that does not answer changes nothing: the
last known state is shown with its age.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nemo_gym.chain.endings import BenchmarkState, EndCause
from nemo_gym.chain.evidence import Evidence, TimedObservation
from nemo_gym.orchestration.status import benchmark_state, next_steps
from nemo_gym.orchestration.status.idle_links import idle_run
from nemo_gym.orchestration.status.time_left import time_left

SCHEMA_VERSION = 1
FRESH = 15.0
"""Seconds; what is older is shown with its age."""

_ROLLS_UP = tuple(
    BenchmarkState(name)
    for name in ("running", "queued", "failed", "unknown", "cancelled", "stopped", "succeeded")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkStatus:
    """One benchmark of a submission."""

    gym_job_id: str
    benchmark: str
    state: BenchmarkState
    reason: str
    cause: EndCause | None
    job_id: str | None
    """The job that the state is about."""
    links: int
    """How many runs have started."""
    links_without_progress: int = 0
    """Runs in a row, back from the last one that has ended, that recorded nothing new."""
    done: int | None = None
    expected: int | None = None
    mean_reward: float | None = None
    eta_s: float | None = None
    """Seconds until the last rollout, at the present rate, as if no other job were needed."""
    left_s: float | None = None
    """The same with the starts of the jobs that are still needed, and with their waits as far as known."""
    left_how: str = ""
    """What that consists of, where more jobs are needed."""
    progress_age_s: float | None = None
    """How old the collector's last report is."""
    state_age_s: float | None = None
    """How old the state is, where the executor gave no answer just now."""
    silent: str = ""
    """Why the executor gave no answer."""
    until: str = ""
    """Of a run that may stop early: what was decided, or how far it is."""
    notes: tuple[str, ...] = ()
    next_command: str = ""
    job_dir: str = ""

    def to_json(self) -> dict[str, Any]:
        """The status as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionStatus:
    """All benchmarks of one submission."""

    gym_job_id: str
    benchmarks: tuple[BenchmarkStatus, ...]

    @property
    def state(self) -> BenchmarkState:
        """Rolled up: running beats queued beats failed beats unknown; succeeded is when all are."""
        found = {status.state for status in self.benchmarks}
        return next((state for state in _ROLLS_UP if state in found), BenchmarkState.UNKNOWN)

    def to_json(self) -> dict[str, Any]:
        """The statuses as JSON values."""
        counts = Counter(str(status.state) for status in self.benchmarks)
        return {
            "gym_job_id": self.gym_job_id,
            "state": self.state,
            "counts": dict(counts),
            "benchmarks": [status.to_json() for status in self.benchmarks],
        }


def of_submissions(known: Iterable[Evidence]) -> list[SubmissionStatus]:
    """The status of every submission, in the order of the evidence."""
    grouped: dict[str, list[BenchmarkStatus]] = {}
    for evidence in known:
        grouped.setdefault(evidence.gym_job_id, []).append(assess(evidence))
    return [SubmissionStatus(gym_job_id=name, benchmarks=tuple(found)) for name, found in grouped.items()]


def narrowed(found: Iterable[SubmissionStatus]) -> list[SubmissionStatus]:
    """Only what is queued or running; submissions without such a benchmark are left out."""
    kept = [
        SubmissionStatus(
            gym_job_id=submission.gym_job_id,
            benchmarks=tuple(status for status in submission.benchmarks if status.state.live),
        )
        for submission in found
    ]
    return [submission for submission in kept if submission.benchmarks]


def to_json(submissions: Sequence[SubmissionStatus], *, at: str) -> dict[str, Any]:
    """One document; ``at`` is UTC."""
    return {
        "schema_version": SCHEMA_VERSION,
        "at": at,
        "submissions": [submission.to_json() for submission in submissions],
    }


def assess(known: Evidence) -> BenchmarkStatus:
    """The status of one benchmark."""
    verdict, job_id = benchmark_state.state_and_job(known)
    progress, last = known.progress, known.last
    live = verdict.state.live
    idle = idle_run(known, running=verdict.state is BenchmarkState.RUNNING)
    age = None
    if progress is not None and progress.updated_at is not None:
        age = max(0.0, known.now - progress.updated_at)
    eta = None
    if progress is not None and verdict.state is BenchmarkState.RUNNING and progress.eta is not None:
        eta = max(0.0, progress.eta - (age or 0.0))
    left = time_left(known, running=verdict.state is BenchmarkState.RUNNING) if live else None
    mean = progress.mean_reward if progress is not None else None
    return BenchmarkStatus(
        gym_job_id=known.gym_job_id,
        benchmark=known.benchmark,
        state=verdict.state,
        reason=verdict.reason,
        cause=verdict.cause,
        job_id=job_id,
        links=sum(link.started is not None for link in known.links),
        links_without_progress=idle.links if idle is not None else 0,
        done=progress.done if progress is not None else None,
        expected=progress.expected if progress is not None else None,
        mean_reward=known.score if mean is None or (not live and known.score is not None) else mean,
        eta_s=eta,
        left_s=left.total if left is not None else None,
        left_how=left.how if left is not None else "",
        progress_age_s=age if live and last is not None else None,
        state_age_s=_age(known, job_id) if not verdict.state.final else None,
        silent=known.silent if not verdict.state.final else "",
        until=progress.until if progress is not None else "",
        notes=tuple(next_steps.notes(known, verdict)),
        next_command=next_steps.next_command(known, verdict),
        job_dir=str(known.job_dir),
    )


def _age(known: Evidence, job_id: str | None) -> float | None:
    """How old the knowledge of a state is; `None` when it is fresh."""
    seen = known.seen.get(job_id or "")
    if seen is not None and seen.fresh:
        return None
    return max(0.0, known.asked_at - _newest(known, seen)) if _newest(known, seen) else None


def _newest(known: Evidence, seen: TimedObservation | None) -> float:
    """When anybody last said something."""
    return max(seen.at if seen is not None else 0.0, benchmark_state.ended_at(known))
