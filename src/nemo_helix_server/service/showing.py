"""Looking at jobs and at what they consist of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import UnknownNameError
from nemo_helix_server.jobs import bill
from nemo_helix_server.jobs.filtering import parse
from nemo_helix_server.jobs.model import Attempt, Job
from nemo_helix_server.jobs.pages import page_of
from nemo_helix_server.service import responses
from nemo_helix_server.service.lookups import CURRENT, Lookups
from nemo_helix_server.service.responses import Document
from nemo_helix_server.store.job_reader import EVERYWHERE
from nemo_helix_server.store.queries import JobQuery, JobStretch, ListPlace, StepQuery, TransitionQuery
from nemo_helix_server.store.reader import StoreReader

_MOST_TRANSITIONS = 100_000


class JobsStretch(NamedTuple):
    """A stretch of a list, part for part."""

    jobs: list[Document]
    places: list[ListPlace]
    """Where the list goes on behind each."""
    curves: list[list[float]]


class Showing(Lookups):
    """Questions; each is one unit that reads."""

    def get(self, workspace: str, name: str) -> Document:
        """A job, with its series under ``status_details.metrics``."""
        with self.store.read() as reader:
            return self.shown(reader, self.find_job(reader, workspace, name))

    def id_of(self, workspace: str, name: str) -> str:
        """The id of a job, for what is cheaper to ask by it."""
        with self.store.read() as reader:
            return self.find_job(reader, workspace, name).id

    def list_jobs(
        self,
        workspace: str,
        *,
        where: parse.Tree = parse.EVERYTHING,
        sort: str = "-created_at",
        page: int = 1,
        page_size: int = 10,
        echo: Any = None,
    ) -> Document:
        """A page of jobs, without series; `-` is every workspace. `echo` is the filter as it was given."""
        query = JobQuery(workspace=_one(workspace), where=where, sort=sort, page=page, page_size=page_size)
        with self.store.read() as reader:
            self.check_workspace(reader, workspace)
            found = reader.jobs.page(query)
        data = [responses.job(job, self.limits, self.clock) for job in found.items]
        envelope = page_of(data, number=page, size=page_size, total=found.total)
        return {**envelope, "sort": sort, "filter": echo}

    def stretch(self, query: JobStretch, curves: Sequence[str] = (), points: int = 0) -> JobsStretch:
        """Jobs from a place in their order on, with the newest points of one of these series each."""
        with self.store.read() as reader:
            self.check_workspace(reader, query.workspace or EVERYWHERE)
            found = reader.jobs.stretch(query)
            # the details say which series a job has, so that those without any cost nothing
            names = {
                job.id: next((name for name in curves if name in job.status_details), "") for job in found
            }
            latest = reader.series.latest({job: name for job, name in names.items() if name}, points)
        return JobsStretch(
            jobs=[responses.job(job, self.limits, self.clock) for job in found],
            places=[
                ListPlace(job.updated_at if query.by_change else job.created_at, job.id) for job in found
            ],
            curves=[latest.get(job.id, []) for job in found],
        )

    def curves(
        self, named: Mapping[str, tuple[str, str]], names: Sequence[str], points: int
    ) -> dict[str, list[float]]:
        """The newest points of the first of some series that each job has; jobs by workspace and name."""
        with self.store.read() as reader:
            jobs = {key: reader.jobs.find(*place) for key, place in named.items()}
            wanted = {
                job.id: name
                for job in jobs.values()
                if job is not None
                and (name := next((name for name in names if name in job.status_details), ""))
            }
            latest = reader.series.latest(wanted, points)
        return {key: latest[job.id] for key, job in jobs.items() if job is not None and job.id in latest}

    def counts(self, workspace: str) -> dict[HelixJobStatus, int]:
        """How many jobs are in each status that occurs; `-` for all workspaces."""
        with self.store.read() as reader:
            self.check_workspace(reader, workspace)
            return reader.jobs.counts(_one(workspace))

    def status(self, workspace: str, name: str) -> Document:
        """The tree of the current attempt: job, steps, tasks."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            return responses.tree(
                job,
                reader.steps.of_attempt(job.attempt_id),
                reader.tasks.of_attempt(job.attempt_id),
                self.limits,
                self.clock,
                self.series_of(reader, job),
            )

    def attempts(
        self,
        workspace: str,
        name: str,
        *,
        statuses: frozenset[str] | None = None,
        sort: str = "-seq",
        page: int = 1,
        page_size: int = 25,
    ) -> Document:
        """A page of the job's attempts, without series."""
        wanted = None if statuses is None else frozenset(HelixJobStatus(status) for status in statuses)
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            found = reader.attempts.of_job(
                job.id,
                statuses=wanted,
                newest_first=sort.startswith("-"),
                offset=(page - 1) * page_size,
                limit=page_size,
            )
        data = [responses.attempt(attempt, job) for attempt in found.items]
        return {**page_of(data, number=page, size=page_size, total=found.total), "sort": sort}

    def attempt(self, workspace: str, name: str, attempt: str) -> Document:
        """One attempt by its id, or the ``current`` one, with its series."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            found = self.find_attempt(reader, job, attempt)
            return responses.attempt(found, job, self._series_of_attempt(reader, job, found))

    def steps(self, workspace: str, name: str, *, attempt: str = CURRENT) -> Document:
        """The steps of an attempt: ``{data: […]}``."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            found = reader.steps.of_attempt(self.find_attempt(reader, job, attempt).id)
        return {"data": [responses.step(step, job) for step in found]}

    def list_steps(
        self,
        workspace: str,
        name: str,
        *,
        statuses: frozenset[str] | None = None,
        source: str | None = None,
        page: int = 1,
        page_size: int = 25,
    ) -> Document:
        """A page of steps with context, of current attempts; `-` for all workspaces and for all jobs."""
        wanted = None if statuses is None else frozenset(HelixJobStatus(status) for status in statuses)
        with self.store.read() as reader:
            self.check_workspace(reader, workspace)
            job = None if name == EVERYWHERE else self.find_job(reader, workspace, name)
            query = StepQuery(
                workspace=_one(workspace),
                job_id=job.id if job else None,
                statuses=wanted,
                source=source,
                offset=(page - 1) * page_size,
                limit=page_size,
            )
            found = reader.steps.contexts(query)
        data = [responses.step_in_context(context) for context in found.items]
        return page_of(data, number=page, size=page_size, total=found.total)

    def step(self, workspace: str, name: str, step: str, *, attempt: str = CURRENT) -> Document:
        """One step by its name: what a workload polls for a pause."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            return responses.step(self.find_step(reader, job, attempt, step), job)

    def tasks(self, workspace: str, name: str, step: str, *, attempt: str = CURRENT) -> Document:
        """The tasks of a step: ``{data: […]}``."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            found = reader.tasks.of_step(self.find_step(reader, job, attempt, step).id)
        return {"data": [responses.task(task, job) for task in found]}

    def task(self, workspace: str, name: str, step: str, task: str, *, attempt: str = CURRENT) -> Document:
        """One task by its name."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            found = reader.tasks.named(self.find_step(reader, job, attempt, step).id, task)
        if found is None:
            raise UnknownNameError(f"step '{step}' of job '{job.name}' has no task '{task}'")
        return responses.task(found, job)

    def results(
        self, workspace: str, name: str, *, attempt: str | None = None, sort: str = "created_at"
    ) -> Document:
        """The results of a job: ``{data: […]}``."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            only = self.find_attempt(reader, job, attempt).id if attempt else None
            found = reader.results.of_job(job.id, attempt_id=only, newest_first=sort.startswith("-"))
        return {"data": [responses.result(result, job) for result in found]}

    def result(self, workspace: str, name: str, result: str) -> Document:
        """One result by its name."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            found = reader.results.named(job.id, result)
        if found is None:
            raise UnknownNameError(f"job '{job.name}' has no result '{result}'")
        return responses.result(found, job)

    def bill(self, workspace: str, name: str) -> Document:
        """What the allocations of a job used, waited for, and lost; oldest first."""
        with self.store.read() as reader:
            job = self.find_job(reader, workspace, name)
            attempts = sorted(reader.attempts.of_job(job.id).items, key=lambda one: one.seq)
            history = reader.transitions.since(TransitionQuery(job_id=job.id, limit=_MOST_TRANSITIONS))
            steps = [
                bill.BilledStep(
                    attempt,
                    step,
                    reader.tasks.of_step(step.id),
                    [row for row in history if row.step_id == step.id and row.about != "task"],
                )
                for attempt in attempts
                for step in reader.steps.of_attempt(attempt.id)
            ]
        return responses.bill(job, bill.lines(steps, self.clock.now()))

    def transitions(
        self, workspace: str, name: str | None = None, *, after: int = 0, limit: int = 1000
    ) -> Document:
        """Transitions in order: ``{data: […], next: seq}``; of one job, a workspace, or all (`-`)."""
        with self.store.read() as reader:
            self.check_workspace(reader, workspace)
            job = self.find_job(reader, workspace, name) if name else None
            query = TransitionQuery(
                after=after, workspace=_one(workspace), job_id=job.id if job else None, limit=limit
            )
            found = reader.transitions.since(query)
        return {
            "data": [responses.transition(transition) for transition in found],
            "next": found[-1].seq if found else after,
        }

    def _series_of_attempt(self, reader: StoreReader, job: Job, attempt: Attempt) -> dict[str, Any] | None:
        """An earlier attempt's series as they were when a rerun took over; the current one's as they are."""
        if attempt.id == job.attempt_id:
            return self.series_of(reader, job)
        return dict(attempt.metrics) if attempt.metrics else None


def _one(workspace: str) -> str | None:
    return None if workspace == EVERYWHERE else workspace
