"""Attempts of jobs, and the results that they made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, insert, null, select, update

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs import stamps
from nemo_helix_server.jobs.model import Attempt, Result, RowPage
from nemo_helix_server.jobs.orders import NewAttempt
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.job_reader import JobReader
from nemo_helix_server.store.session import StorePart, StoreSession

_attempts, _results = schema.attempts.c, schema.results.c
_WITHOUT_SERIES = [null().label("metrics"), *(column for column in _attempts if column.name != "metrics")]

_BY_ID = select(schema.attempts).where(_attempts.id == bindparam("id"))
_INSERT = insert(schema.attempts)


class AttemptReader(StorePart):
    """Questions about attempts; None means that there is no such attempt."""

    def by_id(self, attempt_id: str) -> Attempt | None:
        """An attempt by its id."""
        found = self.connection.execute(_BY_ID, {"id": attempt_id}).first()
        return rows.attempt(found) if found else None

    def of_job(
        self,
        job_id: str,
        *,
        statuses: frozenset[HelixJobStatus] | None = None,
        newest_first: bool = True,
        offset: int = 0,
        limit: int | None = None,
    ) -> RowPage[Attempt]:
        """The attempts of a job, without their series, which `by_id` reads."""
        conditions: list[ColumnElement[bool]] = [_attempts.job_id == job_id]
        if statuses is not None:
            conditions.append(_attempts.status.in_(sorted(statuses)))
        total = self.connection.execute(
            select(func.count()).select_from(schema.attempts).where(*conditions)
        ).scalar_one()
        order = _attempts.seq.desc() if newest_first else _attempts.seq
        query = select(*_WITHOUT_SERIES).where(*conditions).order_by(order).offset(offset).limit(limit)
        return RowPage(tuple(rows.attempt(row) for row in self.connection.execute(query)), total)


class AttemptWriter(AttemptReader):
    """Making attempts, and what is known of them beside their status."""

    def insert(self, job_id: str, seq: int, new: NewAttempt, status: HelixJobStatus) -> Attempt:
        """Make the attempt of a job with this number, counted from 0."""
        attempt = Attempt(
            id=new.id,
            job_id=job_id,
            seq=seq,
            status=status,
            reason=None,
            spec=new.spec,
            platform_spec=new.platform_spec,
            status_details=new.status_details,
            error_details=None,
            metrics=None,
            checkpoint=new.checkpoint,
            created_by=new.created_by,
            created_at=self.now,
            updated_at=self.now,
        )
        values = {column.name: getattr(attempt, column.name) for column in schema.attempts.c}
        self.connection.execute(_INSERT, values)
        return attempt

    def note(self, attempt_id: str, details: Mapping[str, Any]) -> Attempt | None:
        """Merge into an attempt's status details; neither its status nor its clocks move."""
        attempt = self.by_id(attempt_id)
        if attempt is None:
            return None
        merged = stamps.merged(attempt.status_details, details)
        noted = replace(attempt, status_details=merged, updated_at=self.now)
        if merged != attempt.status_details:
            self.connection.execute(
                update(schema.attempts).where(schema.attempts.c.id == attempt_id),
                {"status_details": merged, "updated_at": self.now},
            )
        return noted

    def keep_series(self, attempt_id: str, series: Mapping[str, Any]) -> None:
        """Keep the series of a failed attempt as they are: the next one goes on from an earlier step."""
        self.connection.execute(
            update(schema.attempts).where(_attempts.id == attempt_id), {"metrics": series}
        )


class ResultReader(StorePart):
    """Questions about results; None means that there is no such result."""

    def of_job(
        self, job_id: str, *, attempt_id: str | None = None, newest_first: bool = False
    ) -> list[Result]:
        """The results of a job, or of one attempt, by when they were made."""
        query = select(schema.results).where(_results.job_id == job_id)
        if attempt_id is not None:
            query = query.where(_results.attempt_id == attempt_id)
        order = [_results.created_at, _results.name]
        ordered = query.order_by(*(column.desc() if newest_first else column for column in order))
        return [rows.result(row) for row in self.connection.execute(ordered)]

    def named(self, job_id: str, name: str) -> Result | None:
        """A result of a job by its name."""
        query = select(schema.results).where(_results.job_id == job_id, _results.name == name)
        found = self.connection.execute(query).first()
        return rows.result(found) if found else None


class ResultWriter(ResultReader):
    """Naming results."""

    def __init__(self, session: StoreSession, jobs: JobReader) -> None:
        super().__init__(session)
        self._jobs = jobs

    def put(self, job_id: str, name: str, artifact_url: str, artifact_storage_type: str) -> Result:
        """Name an artifact of the current attempt; raises `StateConflictError` when the name is taken."""
        job = self._jobs.by_id(job_id)
        assert job is not None
        if self.named(job_id, name) is not None:
            raise StateConflictError(f"job {job.name} has a result named {name} already; choose another name")
        result = Result(
            job_id=job_id,
            attempt_id=job.attempt_id,
            name=name,
            artifact_url=artifact_url,
            artifact_storage_type=artifact_storage_type,
            created_at=self.now,
            updated_at=self.now,
        )
        values = {column.name: getattr(result, column.name) for column in schema.results.c}
        self.connection.execute(insert(schema.results), values)
        return result
