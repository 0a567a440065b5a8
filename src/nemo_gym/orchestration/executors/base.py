"""The seam between a submission and whatever runs its jobs.

An executor queues, observes and cancels. It reports what it sees and decides nothing; whoever asks decides.
What it cannot do is said by its ``supports_*`` flags and refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol

from nemo_gym.orchestration.plan.values import Submission


class JobState(StrEnum):
    """What is known about a job."""

    QUEUED = "QUEUED"
    """Accepted, not started."""
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    """Ended with exit status 0."""
    FAILED = "FAILED"
    """Ended otherwise, its walltime included; the reason says how."""
    CANCELLED = "CANCELLED"
    """Ended because somebody asked for it."""
    UNKNOWN = "UNKNOWN"
    """Nothing can be said from here. It never means that the job has ended."""

    @property
    def final(self) -> bool:
        """Whether a job in this state stays in it."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True)
class JobRef:
    """Names one job to its executor, also for a process that did not submit it."""

    job_id: str
    job_dir: Path


@dataclass(frozen=True, slots=True)
class Unheard:
    """The first job of a submission, or of a resubmission, whose id nobody came to note down."""

    job_dir: Path
    resubmission: int = 0
    """The how-manieth; 0: the submission itself."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at one job."""

    state: JobState
    reason: str
    """A sentence for a person; empty where the state says it all."""
    exit_status: int | None = None
    """As a shell says it, once the job has ended."""
    started_at: float | None = None
    """UTC seconds since the epoch, as is `ended_at`."""
    ended_at: float | None = None
    word: str = ""
    """The scheduler's own word for how the job ended (``TIMEOUT``), as ``states.tsv`` has it."""
    silent: bool = False
    """Nobody answered, so nothing was learnt; else "unknown" means that nobody knows such a job."""
    proven: bool = True
    """What was said is of this very job beyond doubt; only such an end is remembered."""
    stranger: str = ""
    """Who cancelled it, where that was not its owner."""


@dataclass(frozen=True, slots=True)
class Queued:
    """What became of one benchmark of a submission: exactly one of `job_id` and `error` is given."""

    benchmark: str
    job_id: str | None
    error: str | None = None


class Executor(Protocol):
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

    def observe(self, jobs: Sequence[JobRef]) -> dict[str, Observation]:
        """Look at many jobs at once; answers for every one, by its id. A final state never changes again."""
        ...

    def look_for(self, jobs: Sequence[Unheard]) -> dict[Unheard, str]:
        """The ids of those that wait or run, whoever queued them was killed before it had noted them down.

        Raises an error where nobody can tell.
        """
        ...

    def cancel(self, jobs: Sequence[JobRef]) -> None:
        """Ask jobs to end; returns without waiting. One that has ended, or is not known, is left alone.

        Raises `nemo_gym.errors.GymError` naming the jobs that cannot be reached from here, after all others
        were asked.
        """
        ...
