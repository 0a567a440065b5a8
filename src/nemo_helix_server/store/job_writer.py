"""Making jobs and attempts, changing settings of jobs, recording what became of their storage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import bindparam, delete, insert, literal_column, select, update
from sqlalchemy.exc import IntegrityError

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs import retention, states
from nemo_helix_server.jobs.filtering.values import indexed
from nemo_helix_server.jobs.model import Attempt, Job
from nemo_helix_server.jobs.orders import NewAttempt, NewJob
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.store import schema
from nemo_helix_server.store.attempts import AttemptWriter
from nemo_helix_server.store.checkpoints import CheckpointWriter
from nemo_helix_server.store.job_reader import JobReader
from nemo_helix_server.store.metric_series import SeriesReader
from nemo_helix_server.store.session import StoreSession
from nemo_helix_server.store.steps import StepWriter
from nemo_helix_server.store.transitions import TransitionWriter
from nemo_runs.clock import wire

_FROM_NEW = ("workspace", "name", "source", "spec", "platform_spec", "fileset", "created_by", "project",
             "description", "ownership", "custom_fields", "output_location", "pause_ttl_seconds",
             "failed_ttl_seconds", "body_digest", "client_token", "id", "attempt_id")  # fmt: skip

_INSERT, _INSERT_VALUES = insert(schema.jobs), insert(schema.spec_values)
_MARK = update(schema.jobs).where(schema.jobs.c.id == bindparam("key")).values(spec_indexed=bindparam("mark"))


def _rows_of(
    job_id: str, workspace: str, created_at: int, entries: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A spec's rows in the index."""
    same = {"job_id": job_id, "workspace": workspace, "created_at": created_at}
    return [{**same, "path": path, "value": value} for path, value in entries.items()]


class JobWriter(JobReader):
    """Making and changing jobs; their statuses are changed by `StatusWriter` alone."""

    def __init__(
        self,
        session: StoreSession,
        *,
        attempts: AttemptWriter,
        steps: StepWriter,
        transitions: TransitionWriter,
        checkpoints: CheckpointWriter,
        series: SeriesReader,
    ) -> None:
        super().__init__(session)
        self._attempts = attempts
        self._steps = steps
        self._transitions = transitions
        self._checkpoints = checkpoints
        self._series = series

    def create(self, new: NewJob, *, who: str, why: str, prepared: str | None = None) -> Job:
        """Make a job with its first attempt and step: creation_pending, or created when it is ``prepared``.

        ``prepared`` says why the event `PREPARED` happens in the same moment. Its rows are written as they
        are after that; the history has both events.

        Raises `StateConflictError` when the name or the client token is taken.
        """
        values = {name: getattr(new, name) for name in _FROM_NEW}
        first = HelixJobStatus.CREATION_PENDING
        status = first if prepared is None else states.after(first, StatusEvent.PREPARED)
        assert status is not None
        moments = {"created_at": self.now, "updated_at": self.now, "status_since": self.now}
        entries = indexed(new.spec)
        mark = schema.TOO_MANY_VALUES if entries is None else schema.INDEXED
        made = {"attempt_seq": 0, "status": status, "spec_indexed": mark}
        try:
            self.connection.execute(_INSERT, {**values, **moments, **made})
        except IntegrityError as error:
            message = (
                f"a job named {new.name} exists already in workspace {new.workspace}; choose another name"
            )
            raise StateConflictError(message) from error
        attempt = self._attempts.insert(
            new.id,
            0,
            NewAttempt(
                id=new.attempt_id,
                step_id=new.step_id,
                created_by=new.created_by,
                spec=new.spec,
                platform_spec=new.platform_spec,
            ),
            status,
        )
        step = self._steps.insert(attempt, 0, status, new.step_id)
        if entries:
            self.connection.execute(_INSERT_VALUES, _rows_of(new.id, new.workspace, self.now, entries))
        job = self.by_id(new.id)
        assert job is not None
        change = self._transitions.change
        happened = [
            change(job, StatusEvent.MADE, None, first, who=who, why=why, step=of) for of in (step, None)
        ]
        if prepared is not None:
            happened += [
                change(job, StatusEvent.PREPARED, first, status, who="service", why=prepared, step=of)
                for of in (step, None)
            ]
        self._transitions.record(*happened)
        return job

    def index_specs(self, limit: int) -> bool:
        """Put the values of some specs into the index that are not in it; whether there may be more."""
        columns = schema.jobs.c
        query = select(columns.id, columns.workspace, columns.created_at, columns.spec)
        missing = query.where(columns.spec_indexed == literal_column(str(schema.UNINDEXED)))
        missing = missing.where(columns.spec_indexed != literal_column(str(schema.INDEXED)))  # has an index
        found = [tuple(row) for row in self.connection.execute(missing.limit(limit))]
        new, marks = [], []
        for job_id, workspace, created_at, spec in found:
            entries = indexed(spec)
            mark = schema.TOO_MANY_VALUES if entries is None else schema.INDEXED
            marks.append({"key": job_id, "mark": mark})
            new += _rows_of(job_id, workspace, created_at, entries or {})
        if new:
            self.connection.execute(_INSERT_VALUES, new)
        if marks:
            self.connection.execute(_MARK, marks)
        return len(found) == limit

    def add_attempt(self, job_id: str, new: NewAttempt, *, who: str, why: str) -> Attempt | None:
        """Add an attempt with its first step, created, and make it the current one.

        The series of the attempt before are kept with it, and storage that was reclaimed counts again.
        None when the job is not in error.
        """
        before = self.by_id(job_id)
        if before is None or before.status is not HelixJobStatus.ERROR:
            return None
        self._attempts.keep_series(before.attempt_id, self._series.documents(job_id))
        status = HelixJobStatus.CREATED
        attempt = self._attempts.insert(job_id, before.attempt_seq + 1, new, status)
        step = self._steps.insert(attempt, 0, status, new.step_id)
        self._update(
            job_id,
            attempt_id=attempt.id,
            attempt_seq=attempt.seq,
            status=status,
            reason=None,
            status_since=self.now,
            stopped_at=None,
            stopped_mark=None,
            storage_reclaimed_at=None,
        )
        job = self.by_id(job_id)
        assert job is not None
        change_of = partial(self._transitions.change, job, who=who, why=why)
        self._transitions.record(
            change_of(StatusEvent.MADE, None, status, step=step),
            change_of(StatusEvent.RERUN_REQUESTED, before.status, status),
        )
        return attempt

    def set_control(
        self, job_id: str, *, pause_ttl_seconds: int | None, failed_ttl_seconds: int | None
    ) -> Job | None:
        """Change the job's storage windows; None keeps what is set."""
        given = {"pause_ttl_seconds": pause_ttl_seconds, "failed_ttl_seconds": failed_ttl_seconds}
        return self._update(job_id, **{name: value for name, value in given.items() if value is not None})

    def set_description(self, job_id: str, description: str) -> Job | None:
        """Change the job's description."""
        return self._update(job_id, description=description)

    def set_custom_fields(self, job_id: str, fields: Mapping[str, Any]) -> Job | None:
        """Replace the job's custom fields."""
        return self._update(job_id, custom_fields=dict(fields) or None)

    def set_storage_bytes(self, job_id: str, size: int) -> None:
        """Record what the job's storage was measured to take."""
        self.connection.execute(
            update(schema.jobs).where(schema.jobs.c.id == job_id),
            {"storage_bytes": size, "storage_measured_at": self.now},
        )

    def reclaim_storage(self, job_id: str) -> Job | None:
        """Record that the job's storage is deleted, on job and attempt; unpinned checkpoints are forgotten.

        Written before the files go. None when that is recorded already, or while the job may still want its
        storage: a paused job has to be moved by `WINDOW_EXPIRED` in the same unit first.
        """
        job = self.by_id(job_id)
        if job is None or job.storage_reclaimed_at is not None or job.status not in retention.RECLAIMABLE:
            return None
        self._attempts.note(job.attempt_id, {"storage_reclaimed_at": wire(self.now)})
        self._checkpoints.drop(job_id, keep=())
        return self._update(job_id, storage_reclaimed_at=self.now, storage_bytes=0)

    def remove(self, job_id: str) -> bool:
        """Remove a deletion_pending job with all its parts; transitions and pinned checkpoints stay."""
        columns = schema.jobs.c
        done = self.connection.execute(
            delete(schema.jobs).where(columns.id == job_id, columns.status == HelixJobStatus.DELETION_PENDING)
        )
        if done.rowcount == 0:
            return False
        self._checkpoints.drop(job_id, keep=())
        return True

    def _update(self, job_id: str, **values: Any) -> Job | None:
        self.connection.execute(
            update(schema.jobs).where(schema.jobs.c.id == job_id), {**values, "updated_at": self.now}
        )
        return self.by_id(job_id)
