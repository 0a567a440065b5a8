"""An executor that runs nothing: jobs change when a test says so. It passes the contract of the others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.orchestration.executors.base import JobRef, Queued, UnrecordedJob, answers
from nemo_gym.orchestration.plan.values import Submission

_UNKNOWN = JobObservation(JobState.UNKNOWN, "no job of this id was queued here")


@dataclass
class FakeQueue:
    """Where the jobs of fake executors are; several executors may look at one, as several programs would."""

    now: Callable[[], float] = lambda: 0.0
    refused: Collection[str] = ()
    """Benchmarks that cannot be queued."""
    jobs: dict[str, JobObservation] = field(default_factory=dict)
    unheard: dict[UnrecordedJob, str] = field(default_factory=dict)
    """Jobs of which nobody has noted down the id."""
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def start(self, job_id: str) -> None:
        """Let a queued job run."""
        seen = self.jobs[job_id]
        if seen.state is JobState.QUEUED:
            self.jobs[job_id] = JobObservation(JobState.RUNNING, "", started_at=self.now())

    def end(self, job_id: str, exit_status: int, reason: str = "") -> None:
        """Let a job end by itself."""
        state = JobState.FAILED if exit_status else JobState.SUCCEEDED
        self._settle(job_id, state, reason or f"exited with status {exit_status}", exit_status)

    def cancel(self, job_id: str) -> None:
        """Let a job end as asked."""
        self._settle(job_id, JobState.CANCELLED, "cancelled", None)

    def _settle(self, job_id: str, state: JobState, reason: str, exit_status: int | None) -> None:
        seen = self.jobs.get(job_id, _UNKNOWN)
        if seen.state is JobState.UNKNOWN or seen.state.final:
            return
        self.jobs[job_id] = replace(
            seen, state=state, reason=reason, exit_status=exit_status, ended_at=self.now()
        )


class FakeJobExecutor:
    """Queues into a `FakeQueue`."""

    name: ClassVar[str] = "fake"
    supports_resumable: ClassVar[bool] = False
    supports_containers: ClassVar[bool] = False

    def __init__(self, cluster: FakeQueue | None = None) -> None:
        self.cluster = cluster or FakeQueue()
        self.submissions: list[Submission] = []

    def submit(self, submission: Submission) -> list[Queued]:
        """Queue every job that the cluster does not refuse."""
        self.submissions.append(submission)
        return answers(submission, [self._queue(plan.benchmark) for plan in submission.queued])

    def _queue(self, benchmark: str) -> Queued:
        if benchmark in self.cluster.refused:
            return Queued(benchmark, None, "the fake cluster refuses this benchmark")
        job_id = f"fake-{next(self.cluster.numbers)}"
        self.cluster.jobs[job_id] = JobObservation(JobState.QUEUED, "")
        return Queued(benchmark, job_id)

    def observe(self, jobs: Sequence[JobRef]) -> dict[str, JobObservation]:
        """What the cluster holds."""
        return {job.job_id: self.cluster.jobs.get(job.job_id, _UNKNOWN) for job in jobs}

    def look_for(self, jobs: Sequence[UnrecordedJob]) -> dict[UnrecordedJob, str]:
        """All jobs that the cluster holds."""
        return {job: self.cluster.unheard[job] for job in jobs if job in self.cluster.unheard}

    def cancel(self, jobs: Sequence[JobRef]) -> None:
        """End jobs at once."""
        for job in jobs:
            self.cluster.cancel(job.job_id)
