"""The `local` executor: each job under a detached supervisor of this machine, its state in its folder.

What acts on processes is imported when it acts: a dry run asks no more than what there can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from nemo_gym.errors import GymError
from nemo_gym.orchestration.executor_kinds import LOCAL

if TYPE_CHECKING:
    from nemo_gym.chain.observation import JobObservation
    from nemo_gym.orchestration.executors.base import JobRef, Queued, UnrecordedJob
    from nemo_gym.orchestration.plan.values import Submission

_GRACE = 30.0


class LocalExecutor:
    """Runs jobs on this machine. Job ids are ``local-<n>``, unique per user."""

    name: ClassVar[str] = LOCAL
    supports_resumable: ClassVar[bool] = True
    supports_containers: ClassVar[bool] = False

    def __init__(self, *, environ: Mapping[str, str] | None = None, grace: float = _GRACE) -> None:
        """``environ`` is inherited by the jobs; ``grace`` is how many seconds lie between TERM and KILL."""
        self._environ = environ
        self._grace = grace

    def submit(self, submission: Submission) -> list[Queued]:
        """Start a supervisor for each job, one after the other, so that their numbers are in order."""
        from nemo_gym.orchestration.executors import local_jobs
        from nemo_gym.orchestration.executors.base import answers

        return answers(
            submission,
            [
                local_jobs.queue(plan, submission.max_parallel, environ=self._environ, grace=self._grace)
                for plan in submission.queued
            ],
        )

    def observe(self, jobs: Sequence[JobRef]) -> dict[str, JobObservation]:
        """Read each job's folder, and ask the kernel whether its supervisor lives."""
        from nemo_gym.orchestration.executors import local_jobs

        return {job.job_id: local_jobs.observe(job) for job in jobs}

    def look_for(self, jobs: Sequence[UnrecordedJob]) -> dict[UnrecordedJob, str]:
        """None: a job is in its folder before its submitter knows its id."""
        del jobs
        return {}

    def cancel(self, jobs: Sequence[JobRef]) -> None:
        """Ask supervisors to end their jobs; what a killed supervisor left running is ended here."""
        from nemo_gym.orchestration.executors import local_jobs

        beyond = [job.job_id for job in jobs if not local_jobs.cancel(job)]
        if beyond:
            raise GymError(
                f"{', '.join(beyond)}: kept by a supervisor on another machine or in another container, "
                "or its record is damaged; cancel it there"
            )
