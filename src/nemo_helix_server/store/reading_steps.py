"""Reading steps, tasks and results."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, select

from nemo_helix_server.jobs.model import Result, RowPage, Step, StepContext, StepTask
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.queries import StepQuery
from nemo_helix_server.store.reading_jobs import JobReading

_jobs, _attempts, _steps = schema.jobs.c, schema.attempts.c, schema.steps.c
_tasks, _results = schema.tasks.c, schema.results.c


class StepReading(JobReading):
    """Questions about what jobs consist of; None means that there is no such thing."""

    def steps(self, attempt_id: str) -> list[Step]:
        """The steps of an attempt that exist already, in order."""
        query = select(schema.steps).where(_steps.attempt_id == attempt_id).order_by(_steps.seq)
        return [rows.step(row) for row in self.connection.execute(query)]

    def step(self, step_id: str) -> Step | None:
        """A step by its id."""
        return self._step(select(schema.steps).where(_steps.id == step_id))

    def step_named(self, attempt_id: str, name: str) -> Step | None:
        """A step of an attempt by its name."""
        return self._step(
            select(schema.steps).where(_steps.attempt_id == attempt_id, _steps.name == name),
        )

    def current_step(self, attempt_id: str) -> Step:
        """The newest step of an attempt: the one that actions mean."""
        query = select(schema.steps).where(_steps.attempt_id == attempt_id)
        return rows.step(self.connection.execute(query.order_by(_steps.seq.desc()).limit(1)).one())

    def earlier_step(self, step: Step) -> Step | None:
        """The step of the same name in the attempt before: what a rerun compares itself with."""
        own = select(_attempts.seq).where(_attempts.id == step.attempt_id).scalar_subquery()
        query = select(schema.steps).join(schema.attempts, _attempts.id == _steps.attempt_id)
        return self._step(
            query.where(_attempts.job_id == step.job_id, _attempts.seq == own - 1, _steps.name == step.name)
        )

    def contexts(self, query: StepQuery) -> RowPage[StepContext]:
        """Steps with what running them takes, oldest first; two statements however many there are."""
        wanted = _restricted(rows.CONTEXT, query)
        found = self.connection.execute(
            wanted.order_by(_steps.created_at, _steps.id).offset(query.offset).limit(query.limit)
        )
        items = tuple(rows.context(row) for row in found)
        if query.limit is None and query.offset == 0:
            return RowPage(items, len(items))
        count = wanted.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
        return RowPage(items, int(self.connection.execute(count).scalar_one()))

    def context(self, step_id: str) -> StepContext | None:
        """The same for one step."""
        found = self.connection.execute(rows.CONTEXT.where(_steps.id == step_id)).first()
        return rows.context(found) if found else None

    def tasks(self, step_id: str) -> list[StepTask]:
        """The tasks of a step, oldest first."""
        return self._tasks(select(schema.tasks).where(_tasks.step_id == step_id))

    def tasks_of_attempt(self, attempt_id: str) -> list[StepTask]:
        """The tasks of all steps of an attempt, oldest first."""
        return self._tasks(select(schema.tasks).where(_tasks.attempt_id == attempt_id))

    def task(self, step_id: str, name: str) -> StepTask | None:
        """A task of a step by its name."""
        query = select(schema.tasks).where(_tasks.step_id == step_id, _tasks.name == name)
        found = self.connection.execute(query).first()
        return rows.task(found) if found else None

    def results(
        self, job_id: str, *, attempt_id: str | None = None, newest_first: bool = False
    ) -> list[Result]:
        """The results of a job, or of one attempt, by when they were made."""
        query = select(schema.results).where(_results.job_id == job_id)
        if attempt_id is not None:
            query = query.where(_results.attempt_id == attempt_id)
        order = [_results.created_at, _results.name]
        ordered = query.order_by(*(column.desc() if newest_first else column for column in order))
        return [rows.result(row) for row in self.connection.execute(ordered)]

    def result(self, job_id: str, name: str) -> Result | None:
        """A result of a job by its name."""
        query = select(schema.results).where(_results.job_id == job_id, _results.name == name)
        found = self.connection.execute(query).first()
        return rows.result(found) if found else None

    def _step(self, query: Select[Any]) -> Step | None:
        found = self.connection.execute(query).first()
        return rows.step(found) if found else None

    def _tasks(self, query: Select[Any]) -> list[StepTask]:
        ordered = query.order_by(_tasks.created_at, _tasks.id)
        return [rows.task(row) for row in self.connection.execute(ordered)]


def _restricted(wanted: Select[Any], query: StepQuery) -> Select[Any]:
    if query.workspace is not None:
        wanted = wanted.where(_jobs.workspace == query.workspace)
    if query.job_id is not None:
        wanted = wanted.where(_steps.job_id == query.job_id)
    if query.statuses is not None:
        wanted = wanted.where(_steps.status.in_(sorted(query.statuses)))
    if query.source is not None:
        wanted = wanted.where(_jobs.source == query.source)
    if query.current_only:
        wanted = wanted.where(_jobs.attempt_id == _steps.attempt_id)
    return wanted
