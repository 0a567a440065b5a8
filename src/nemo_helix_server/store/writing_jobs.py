"""Writing what is not a status: jobs, attempts, settings of jobs, results."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, update
from sqlalchemy.exc import IntegrityError

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.clock import wire
from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs import retention
from nemo_helix_server.jobs.model import Attempt, Job, Result
from nemo_helix_server.jobs.orders import NewAttempt, NewJob
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.store import schema
from nemo_helix_server.store.progress import ProgressWriting

_FROM_NEW = ("workspace", "name", "source", "spec", "platform_spec", "fileset", "created_by", "project",
             "description", "ownership", "custom_fields", "output_location", "pause_ttl_seconds",
             "failed_ttl_seconds", "body_digest", "client_token", "id", "attempt_id")  # fmt: skip


class JobWriting(ProgressWriting):
    """Making and changing jobs."""

    def create_job(self, new: NewJob, *, who: str, why: str) -> Job:
        """Make a job with its first attempt and step, creation_pending.

        Raises `StateConflictError` when the name or the client token is taken.
        """
        values = {name: getattr(new, name) for name in _FROM_NEW}
        status = HelixJobStatus.CREATION_PENDING
        moments = {"created_at": self.now, "updated_at": self.now, "status_since": self.now}
        try:
            self.connection.execute(
                insert(schema.jobs), {**values, **moments, "attempt_seq": 0, "status": status}
            )
        except IntegrityError as error:
            message = (
                f"a job named {new.name} exists already in workspace {new.workspace}; choose another name"
            )
            raise StateConflictError(message) from error
        attempt = self._insert_attempt(
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
        step = self.insert_step(attempt, 0, status, new.step_id)
        job = self.job_by_id(new.id)
        assert job is not None
        self.record(job, StatusEvent.MADE, None, status, who=who, why=why, step=step)
        self.record(job, StatusEvent.MADE, None, status, who=who, why=why)
        return job

    def create_attempt(self, job_id: str, new: NewAttempt, *, who: str, why: str) -> Attempt | None:
        """Add an attempt with its first step, created, and make it the current one.

        The series of the attempt before are kept with it, and storage that was reclaimed counts from anew.
        None when the job is not in error.
        """
        before = self.job_by_id(job_id)
        if before is None or before.status is not HelixJobStatus.ERROR:
            return None
        self._freeze_series(before)
        status = HelixJobStatus.CREATED
        attempt = self._insert_attempt(job_id, before.attempt_seq + 1, new, status)
        step = self.insert_step(attempt, 0, status, new.step_id)
        self._update_job_columns(
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
        job = self.job_by_id(job_id)
        assert job is not None
        self.record(job, StatusEvent.MADE, None, status, who=who, why=why, step=step)
        self.record(job, StatusEvent.RERUN_REQUESTED, before.status, status, who=who, why=why)
        return attempt

    def set_control(
        self, job_id: str, *, pause_ttl_seconds: int | None, failed_ttl_seconds: int | None
    ) -> Job | None:
        """Change the job's storage windows; None keeps what is set."""
        given = {"pause_ttl_seconds": pause_ttl_seconds, "failed_ttl_seconds": failed_ttl_seconds}
        return self._update_job_columns(
            job_id, **{name: value for name, value in given.items() if value is not None}
        )

    def set_description(self, job_id: str, description: str) -> Job | None:
        """Change the job's description."""
        return self._update_job_columns(job_id, description=description)

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
        job = self.job_by_id(job_id)
        if job is None or job.storage_reclaimed_at is not None or job.status not in retention.RECLAIMABLE:
            return None
        self.note_attempt(job.attempt_id, {"storage_reclaimed_at": wire(self.now)})
        self.forget_checkpoints(job_id, keep=())
        return self._update_job_columns(job_id, storage_reclaimed_at=self.now, storage_bytes=0)

    def forget_checkpoints(self, job_id: str, keep: tuple[str, ...]) -> None:
        """Forget checkpoints that are no longer in the job's storage.

        Those that are pinned, or are to be, stay, as not present.
        """
        columns = schema.checkpoints.c
        gone = [columns.job_id == job_id, columns.id.not_in(keep)]
        unwanted = (columns.pinned_at.is_(None), columns.pin_requested_at.is_(None))
        self.connection.execute(delete(schema.checkpoints).where(*gone, *unwanted))
        self.connection.execute(update(schema.checkpoints).where(*gone), {"present": False})

    def put_result(self, job_id: str, name: str, artifact_url: str, artifact_storage_type: str) -> Result:
        """Name an artifact of the current attempt; raises `StateConflictError` when the name is taken."""
        job = self.job_by_id(job_id)
        assert job is not None
        if self.result(job_id, name) is not None:
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

    def remove_job(self, job_id: str) -> bool:
        """Remove a deletion_pending job with all its parts; transitions and pinned checkpoints stay."""
        columns = schema.jobs.c
        done = self.connection.execute(
            delete(schema.jobs).where(columns.id == job_id, columns.status == HelixJobStatus.DELETION_PENDING)
        )
        if done.rowcount == 0:
            return False
        self.forget_checkpoints(job_id, keep=())
        return True

    def _insert_attempt(self, job_id: str, seq: int, new: NewAttempt, status: HelixJobStatus) -> Attempt:
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
        self.connection.execute(insert(schema.attempts), values)
        return attempt

    def _freeze_series(self, job: Job) -> None:
        """Keep the series of a failed attempt as they are: the next one goes on from an earlier step."""
        series = self.series(job.id)
        self.connection.execute(
            update(schema.attempts).where(schema.attempts.c.id == job.attempt_id), {"metrics": series}
        )

    def _update_job_columns(self, job_id: str, **values: Any) -> Job | None:
        self.connection.execute(
            update(schema.jobs).where(schema.jobs.c.id == job_id), {**values, "updated_at": self.now}
        )
        return self.job_by_id(job_id)
