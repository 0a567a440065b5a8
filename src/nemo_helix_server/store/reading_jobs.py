"""Reading jobs, attempts, steps, tasks and results."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.model import Attempt, Job, Page, Result, Step, StepContext, Task
from nemo_helix_server.store.queries import JobQuery, StepQuery


class JobReading:
    """Questions about jobs and what they consist of; None means that there is no such thing."""

    def __init__(self, connection: Connection, now: int) -> None:
        self.connection = connection
        self.now = now
        """The moment of this unit: everything that it writes happened then."""

    def job(self, workspace: str, name: str) -> Job | None:
        """A job by its name, or else by its id, in one workspace (`-`: by id in any)."""
        raise NotImplementedError

    def job_by_id(self, job_id: str) -> Job | None:
        """A job by its id."""
        raise NotImplementedError

    def job_by_client_token(self, workspace: str, token: str) -> tuple[Job, str] | None:
        """The job that was made with this client token, and the digest of what had been asked."""
        raise NotImplementedError

    def body_digest(self, job_id: str) -> str:
        """The digest of what the job was made from."""
        raise NotImplementedError

    def jobs(self, query: JobQuery) -> Page[Job]:
        """One page, filtered, sorted and counted by the database."""
        raise NotImplementedError

    def counts(self, workspace: str | None) -> dict[HelixJobStatus, int]:
        """How many jobs there are in each status that occurs."""
        raise NotImplementedError

    def storage_bytes(self, workspace: str | None) -> int:
        """What the jobs' storage was measured to take, in all."""
        raise NotImplementedError

    def settled(self, statuses: Iterable[HelixJobStatus], *, stopped_before: int, limit: int) -> list[Job]:
        """Jobs in these statuses since before a moment, whose storage has not been reclaimed: longest first."""
        raise NotImplementedError

    def jobs_in(self, status: HelixJobStatus, limit: int) -> list[Job]:
        """Jobs in a status, of all workspaces: for creation_pending and deletion_pending."""
        raise NotImplementedError

    def attempt(self, attempt_id: str) -> Attempt | None:
        """An attempt by its id."""
        raise NotImplementedError

    def attempts(
        self,
        job_id: str,
        *,
        statuses: frozenset[HelixJobStatus] | None = None,
        newest_first: bool = True,
        offset: int = 0,
        limit: int | None = None,
    ) -> Page[Attempt]:
        """The attempts of a job."""
        raise NotImplementedError

    def steps(self, attempt_id: str) -> list[Step]:
        """The steps of an attempt that exist already, in order."""
        raise NotImplementedError

    def step(self, step_id: str) -> Step | None:
        """A step by its id."""
        raise NotImplementedError

    def step_named(self, attempt_id: str, name: str) -> Step | None:
        """A step of an attempt by its name."""
        raise NotImplementedError

    def current_step(self, attempt_id: str) -> Step:
        """The newest step of an attempt: the one that actions mean."""
        raise NotImplementedError

    def contexts(self, query: StepQuery) -> Page[StepContext]:
        """Steps with what running them takes, oldest first; two statements however many there are."""
        raise NotImplementedError

    def context(self, step_id: str) -> StepContext | None:
        """The same for one step."""
        raise NotImplementedError

    def tasks(self, step_id: str) -> list[Task]:
        """The tasks of a step, oldest first."""
        raise NotImplementedError

    def tasks_of_attempt(self, attempt_id: str) -> list[Task]:
        """The tasks of all steps of an attempt, oldest first."""
        raise NotImplementedError

    def task(self, step_id: str, name: str) -> Task | None:
        """A task of a step by its name."""
        raise NotImplementedError

    def results(
        self, job_id: str, *, attempt_id: str | None = None, newest_first: bool = False
    ) -> list[Result]:
        """The results of a job, or of one attempt, by when they were made."""
        raise NotImplementedError

    def result(self, job_id: str, name: str) -> Result | None:
        """A result of a job by its name."""
        raise NotImplementedError
