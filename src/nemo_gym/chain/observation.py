"""One look at one job: what an executor reports, in words that belong to no executor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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

    @property
    def live(self) -> bool:
        """Whether the job is seen queued or running."""
        return self in (JobState.QUEUED, JobState.RUNNING)

    @property
    def settled(self) -> bool:
        """Whether the job is seen not to run: it waits, or has ended."""
        return self.final or self is JobState.QUEUED

    @property
    def ended_badly(self) -> bool:
        """Whether the job ended, but not with exit status 0."""
        return self.final and self is not JobState.SUCCEEDED


@dataclass(frozen=True, slots=True)
class JobObservation:
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
