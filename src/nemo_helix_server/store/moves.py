"""Changing a status: the only place that writes one, by the table of `jobs.states`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import insert, update

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs import identifiers, stamps, states, task_states
from nemo_helix_server.jobs.model import Attempt, Job, Json, Moved, Step, StepTask
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_helix_server.store import schema
from nemo_helix_server.store.reader import StoreReader


class Moving(StoreReader):
    """Transitions of steps, jobs and tasks."""

    def move(
        self,
        step_id: str,
        event: StatusEvent,
        *,
        who: str,
        why: str,
        expected: HelixJobStatus | Collection[HelixJobStatus] | None = None,
        version: int | None = None,
        reason: StatusReason | None = None,
        details: Mapping[str, Any] | None = None,
        error: Json | None = None,
        task: str | None = None,
    ) -> Moved | None:
        """Let an event happen to a step, and to its attempt and job what follows from it.

        None, and nothing written, when the step is not (any more) as expected: in one of the `expected`
        statuses, of the `version` the caller had seen, in a status from which the event leads somewhere, and
        part of its job's current attempt in a job that is not being removed.

        `details` are merged into the step's status details key by key, a None value removes its key; `error`
        becomes the error details of step and attempt. `task` names the new task of an `ACCEPTED` step, which
        is made in the same unit, before its process is started; the newest task follows its step's status. A
        step that completes makes its successor. Stamps of the lifecycle (`pause_requested_at`, `resumed_at`,
        `stopped_at`, `image_digest_at_save`) are written here, and one transition each for the step and, if
        its status changed, the job.
        """
        before = self.step(step_id)
        if before is None or not _is_expected(before, expected, version):
            return None
        to = None if event in states.JOB_EVENTS else states.after(before.status, event)
        job = self.job_by_id(before.job_id)
        if to is None or job is None or not _is_current(before, job):
            return None
        attempt = self.attempt(before.attempt_id)
        assert attempt is not None
        step = self._after(before, event, to, reason, details, error, task)
        if not self._write_step(before, step):
            return None
        if task is not None:
            self.insert_task(step, task)
        else:
            self._follow(step, event)
        planned = len(attempt.platform_spec["steps"])
        successor = None
        if to is HelixJobStatus.COMPLETED and step.seq + 1 < planned:
            successor = self.insert_step(attempt, step.seq + 1, HelixJobStatus.CREATED)
        newest = successor or step
        history = [HelixJobStatus.COMPLETED] * newest.seq + [newest.status]
        status = states.derive_attempt(history, planned)
        if successor:
            attempt = replace(attempt, status_details=stamps.between_steps(attempt.status_details))
        attempt = self._write_attempt(attempt, step, newest, status)
        moved = self._write_job(job, attempt, newest, status)
        self.record(job, event, before.status, to, who=who, why=why, step=step)
        if successor:
            self.record(job, StatusEvent.MADE, None, successor.status, who=who, why=why, step=successor)
        if moved.status is not job.status:
            self.record(moved, event, job.status, moved.status, who=who, why=why)
        return Moved(job=moved, attempt=attempt, step=step, next_step=successor, origin=before.status)

    def move_job(self, job_id: str, event: StatusEvent, *, who: str, why: str) -> Job | None:
        """Let an event happen to the job alone: `DELETE_REQUESTED`. None when it means nothing there."""
        job = self.job_by_id(job_id)
        to = states.after(job.status, event) if job else None
        if job is None or to is not HelixJobStatus.DELETION_PENDING:
            return None
        moved = replace(job, status=to, reason=None, status_since=self.now, updated_at=self.now)
        self._update_job(moved)
        self.record(moved, event, job.status, to, who=who, why=why)
        return moved

    def record(
        self,
        job: Job,
        event: StatusEvent,
        origin: HelixJobStatus | None,
        to: HelixJobStatus,
        *,
        who: str,
        why: str,
        step: Step | None = None,
        task: str | None = None,
    ) -> None:
        """Keep one change of a status; without a step it is the job's."""
        self.connection.execute(
            insert(schema.transitions),
            {
                "workspace": job.workspace,
                "job_id": job.id,
                "job": job.name,
                "attempt_id": step.attempt_id if step else job.attempt_id,
                "step_id": step.id if step else None,
                "step": step.name if step else None,
                "task": task or (step.task if step else None),
                "origin": origin,
                "to": to,
                "event": event,
                "reason": step.reason if step else job.reason,
                "at": self.now,
                "who": who,
                "why": why,
                "about": "task" if task else "step" if step else "job",
            },
        )

    def insert_step(self, attempt: Attempt, seq: int, status: HelixJobStatus, step_id: str = "") -> Step:
        """Make the step whose turn has come."""
        spec = attempt.platform_spec["steps"][seq]
        step = Step(
            id=step_id or identifiers.entity_id(identifiers.STEP),
            job_id=attempt.job_id,
            attempt_id=attempt.id,
            seq=seq,
            name=spec["name"],
            status=status,
            reason=None,
            spec=spec,
            status_details={},
            error_details=None,
            task=None,
            control_seq=0,
            version=1,
            created_at=self.now,
            updated_at=self.now,
            status_since=self.now,
            started_at=None,
            stopped_at=None,
            since_mark=self.mark,
            turn_at=self.now,
            turn_mark=self.mark,
        )
        if attempt.seq > 0:
            earlier = self.earlier_step(step)
            failed = earlier is not None and earlier.status is HelixJobStatus.ERROR
            warning = attempt.status_details.get("rerun_warning")
            details = stamps.inherited(
                earlier.status_details if earlier else None, failed=failed, warning=warning
            )
            step = replace(step, status_details=details)
        self.connection.execute(insert(schema.steps), _columns(schema.steps, step))
        return step

    def insert_task(self, step: Step, name: str) -> StepTask:
        """Make a task of a step, pending."""
        task = StepTask(
            id=identifiers.entity_id(identifiers.TASK),
            job_id=step.job_id,
            attempt_id=step.attempt_id,
            step_id=step.id,
            name=name,
            status=HelixJobStatus.PENDING,
            status_details={},
            error_details=None,
            error_stack=None,
            created_at=self.now,
            updated_at=self.now,
        )
        self.connection.execute(insert(schema.tasks), _columns(schema.tasks, task))
        return task

    def _after(
        self,
        step: Step,
        event: StatusEvent,
        to: HelixJobStatus,
        reason: StatusReason | None,
        details: Mapping[str, Any] | None,
        error: Json | None,
        task: str | None,
    ) -> Step:
        """The step as it is after the event."""
        asked = event in {
            StatusEvent.PAUSE_REQUESTED,
            StatusEvent.PAUSE_WITHDRAWN,
            StatusEvent.PAUSE_WITHDRAWN_EARLY,
        }
        started = self.now if event is StatusEvent.STARTED else step.started_at
        return replace(
            step,
            status=to,
            reason=states.reason_after(event, step.reason, reason),
            status_details=stamps.after(step.status_details, details, event, to, self.now),
            error_details=error if error is not None else step.error_details,
            task=task or step.task,
            control_seq=step.control_seq + asked,
            version=step.version + 1,
            updated_at=self.now,
            status_since=self.now,
            started_at=None if event is StatusEvent.ACCEPTED else started,
            stopped_at=self.now if to.is_settled else None,
            since_mark=self.mark,
            turn_at=self.now if to is HelixJobStatus.RESUMING else step.turn_at,
            turn_mark=self.mark if to is HelixJobStatus.RESUMING else step.turn_mark,
        )

    def _write_step(self, before: Step, step: Step) -> bool:
        columns = schema.steps.c
        done = self.connection.execute(
            update(schema.steps).where(
                columns.id == step.id, columns.status == before.status, columns.version == before.version
            ),
            _columns(
                schema.steps,
                step,
                without={"id", "job_id", "attempt_id", "seq", "name", "spec", "created_at"},
            ),
        )
        return done.rowcount == 1

    def _write_attempt(self, attempt: Attempt, step: Step, newest: Step, status: HelixJobStatus) -> Attempt:
        failed = status is HelixJobStatus.ERROR
        moved = replace(
            attempt,
            status=status,
            reason=newest.reason,
            status_details=stamps.on_attempt(attempt.status_details, step.status_details, step.status),
            error_details=step.error_details if failed else attempt.error_details,
            updated_at=self.now,
        )
        changed = {"status", "reason", "error_details", "updated_at"}
        if moved.status_details != attempt.status_details or newest is not step:
            changed.add("status_details")
        self.connection.execute(
            update(schema.attempts).where(schema.attempts.c.id == attempt.id),
            {name: getattr(moved, name) for name in changed},
        )
        return moved

    def _write_job(self, job: Job, attempt: Attempt, newest: Step, attempt_status: HelixJobStatus) -> Job:
        status = states.derive_job(attempt_status)
        changed = status is not job.status
        rests = status.is_settled
        moved = replace(
            job,
            status=status,
            reason=newest.reason,
            status_details=attempt.status_details,
            error_details=attempt.error_details,
            updated_at=self.now,
            status_since=self.now if changed else job.status_since,
            stopped_at=(self.now if changed else job.stopped_at) if rests else None,
            stopped_mark=(self.mark if changed else job.stopped_mark) if rests else None,
            # what it took while it ran says nothing of what it takes now; it is measured presently
            storage_bytes=None if changed and rests else job.storage_bytes,
        )
        self._update_job(moved)
        return moved

    def _update_job(self, job: Job) -> None:
        names = (
            "status",
            "reason",
            "updated_at",
            "status_since",
            "stopped_at",
            "stopped_mark",
            "storage_bytes",
        )
        self.connection.execute(
            update(schema.jobs).where(schema.jobs.c.id == job.id),
            {name: getattr(job, name) for name in names},
        )

    def _follow(self, step: Step, event: StatusEvent) -> None:
        """Let the newest task go where its step went."""
        task = self.task(step.id, step.task) if step.task else None
        to = task_states.task_after(task.status, event) if task else None
        if task is not None and to is not None:
            self.connection.execute(
                update(schema.tasks).where(schema.tasks.c.id == task.id),
                {"status": to, "updated_at": self.now},
            )


def _is_expected(
    step: Step, expected: HelixJobStatus | Collection[HelixJobStatus] | None, version: int | None
) -> bool:
    if version is not None and version != step.version:
        return False
    if expected is None:
        return True
    return step.status in ({expected} if isinstance(expected, HelixJobStatus) else expected)


def _is_current(step: Step, job: Job) -> bool:
    return step.attempt_id == job.attempt_id and job.status is not HelixJobStatus.DELETION_PENDING


def _columns(table: Any, value: Any, without: Collection[str] = ()) -> dict[str, Any]:
    return {column.name: getattr(value, column.name) for column in table.c if column.name not in without}
