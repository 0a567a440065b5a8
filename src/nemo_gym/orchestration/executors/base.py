"""The seam between a submission and whatever runs its jobs.

An executor queues, observes and cancels. It reports what it sees and decides nothing; its caller decides.
What it cannot do is said by its ``supports_*`` flags and refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from nemo_gym.chain.observation import JobObservation
from nemo_gym.orchestration.plan.values import Submission


@dataclass(frozen=True, slots=True)
class JobRef:
    """Names one job to its executor, also for a process that did not submit it."""

    job_id: str
    job_dir: Path


@dataclass(frozen=True, slots=True)
class UnrecordedJob:
    """The first job of a submission, or of a resubmission, whose id nobody came to note down."""

    job_dir: Path
    resubmission: int = 0
    """The how-manieth; 0: the submission itself."""


@dataclass(frozen=True, slots=True)
class Queued:
    """What became of one benchmark of a submission: exactly one of `job_id` and `error` is given."""

    benchmark: str
    job_id: str | None
    error: str | None = None


def answers(submission: Submission, queued: Sequence[Queued]) -> list[Queued]:
    """An answer for each benchmark, in their order, from one for each queued job."""
    found = {
        benchmark: Queued(benchmark, answer.job_id, answer.error)
        for job, answer in zip(submission.queued, queued, strict=True)
        for benchmark in submission.benchmarks_of(job)
    }
    return [found[job.benchmark] for job in submission.jobs]


class JobExecutor(Protocol):
    """Queues jobs, looks at them and cancels them. Every implementation passes ``tests/contracts``."""

    name: ClassVar[str]
    """As in ``compute.<name>.type`` and in the ``executor`` field of a job record."""
    supports_resumable: ClassVar[bool]
    """Whether a benchmark may be ``resumable``."""
    supports_containers: ClassVar[bool]
    """Whether services and driver may run in containers."""

    def submit(self, submission: Submission) -> list[Queued]:
        """Queue every job of a submission whose run directory is written already.

        Answers once a benchmark, in their order. A benchmark that cannot be queued is answered with an error;
        it never shifts, delays or discards another. Raises nothing.
        """
        ...

    def observe(self, jobs: Sequence[JobRef]) -> dict[str, JobObservation]:
        """Look at many jobs at once; answers for every one, by its id. A final state never changes again."""
        ...

    def look_for(self, jobs: Sequence[UnrecordedJob]) -> dict[UnrecordedJob, str]:
        """The ids of those that wait or run, also where the process that queued them was killed before it
        noted them down.

        Raises an error where that is not known.
        """
        ...

    def cancel(self, jobs: Sequence[JobRef]) -> None:
        """Ask jobs to end; returns without waiting. One that has ended, or is not known, is left alone.

        Raises `nemo_gym.errors.GymError` naming the jobs that cannot be reached from here, after all others
        were asked.
        """
        ...
