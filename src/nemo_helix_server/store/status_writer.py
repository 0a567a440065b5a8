"""Changing a status: the only place that writes one, by the table of `jobs.states`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlalchemy import bindparam, update

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs import stamps, states
from nemo_helix_server.jobs.model import Attempt, Job, Moved, Step
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.attempts import AttemptReader
from nemo_helix_server.store.job_reader import JobReader
from nemo_helix_server.store.session import StorePart, StoreSession
from nemo_helix_server.store.steps import StepWriter, TaskWriter
from nemo_helix_server.store.transitions import TransitionWriter

_NEVER_CHANGED = frozenset({"id", "job_id", "attempt_id", "seq", "name", "spec", "created_at"})
_MOVE_STEP = update(schema.steps).where(
    schema.steps.c.id == bindparam("key"),
    schema.steps.c.status == bindparam("was"),
    schema.steps.c.version == bindparam("was_version"),
)
_MOVE_ATTEMPT = update(schema.attempts).where(schema.attempts.c.id == bindparam("key"))
_MOVE_JOB = update(schema.jobs).where(schema.jobs.c.id == bindparam("key"))


class StatusWriter(StorePart):
    """Transitions of steps and jobs."""

    def __init__(
        self,
        session: StoreSession,
        *,
        jobs: JobReader,
        attempts: AttemptReader,
        steps: StepWriter,
        tasks: TaskWriter,
        transitions: TransitionWriter,
    ) -> None:
        super().__init__(session)
        self._jobs = jobs
        self._attempts = attempts
        self._steps = steps
        self._tasks = tasks
        self._transitions = transitions

    def move(self, step_id: str, change: StatusChange) -> Moved | None:
        """Let an event happen to a step, and to its attempt and job what follows from it.

        None, and nothing written, when the step is not (any more) as the change expects it, in a status from
        which the event leads somewhere, and part of its job's current attempt in a job that is not being
        removed.

        A new task is made in the same unit, before its process is started; the newest task follows its
        step's status. A step that completes makes its successor. Stamps of the lifecycle
        (`pause_requested_at`, `resumed_at`, `stopped_at`, `image_digest_at_save`) are written here, and one
        transition each for the step and, if its status changed, the job.
        """
        before = self._steps.by_id(step_id)
        if before is None or not change.expects(before):
            return None
        event = change.event
        to = None if event in states.JOB_EVENTS else states.after(before.status, event)
        job = self._jobs.by_id(before.job_id)
        if to is None or job is None or not _is_current(before, job):
            return None
        attempt = self._attempts.by_id(before.attempt_id)
        assert attempt is not None
        step = self._after(before, change, to)
        if not self._write_step(before, step):
            return None
        if change.task is not None:
            self._tasks.insert(step, change.task, step.executor)
        else:
            self._tasks.follow(step, event, change.task_details)
        planned = len(attempt.platform_spec["steps"])
        successor = None
        if to is HelixJobStatus.COMPLETED and step.seq + 1 < planned:
            successor = self._steps.insert(attempt, step.seq + 1, HelixJobStatus.CREATED)
        newest = successor or step
        history = [HelixJobStatus.COMPLETED] * newest.seq + [newest.status]
        status = states.derive_attempt(history, planned, goes_on=stamps.GOES_ON in newest.status_details)
        if successor:
            attempt = replace(attempt, status_details=stamps.between_steps(attempt.status_details))
        attempt = self._write_attempt(attempt, step, newest, status)
        moved = self._write_job(job, attempt, newest, status)
        who, why = change.who, change.why
        change_of = partial(self._transitions.change, who=who, why=why)
        happened = [change_of(job, event, before.status, to, step=step)]
        if successor:
            happened.append(change_of(job, StatusEvent.MADE, None, successor.status, step=successor))
        if moved.status is not job.status:
            happened.append(change_of(moved, event, job.status, moved.status))
        self._transitions.record(*happened)
        return Moved(job=moved, attempt=attempt, step=step, next_step=successor, origin=before.status)

    def move_job(self, job_id: str, event: StatusEvent, *, who: str, why: str) -> Job | None:
        """Let an event happen to the job alone: `DELETE_REQUESTED`. None when it means nothing there."""
        job = self._jobs.by_id(job_id)
        to = states.after(job.status, event) if job else None
        if job is None or to is not HelixJobStatus.DELETION_PENDING:
            return None
        moved = replace(job, status=to, reason=None, status_since=self.now, updated_at=self.now)
        self._update_job(moved)
        self._transitions.record(self._transitions.change(moved, event, job.status, to, who=who, why=why))
        return moved

    def _after(self, step: Step, change: StatusChange, to: HelixJobStatus) -> Step:
        """The step as it is after the event."""
        event = change.event
        asked = event in {
            StatusEvent.PAUSE_REQUESTED,
            StatusEvent.PAUSE_WITHDRAWN,
            StatusEvent.PAUSE_WITHDRAWN_EARLY,
        }
        started = self.now if event is StatusEvent.STARTED else step.started_at
        return replace(
            step,
            status=to,
            reason=states.reason_after(event, step.reason, change.reason),
            status_details=stamps.after(step.status_details, change.details, event, to, self.now),
            error_details=change.error if change.error is not None else step.error_details,
            task=change.task or step.task,
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
        was = {"key": step.id, "was": before.status, "was_version": before.version}
        changed = rows.columns(schema.steps, step, without=_NEVER_CHANGED)
        return self.connection.execute(_MOVE_STEP, {**was, **changed}).rowcount == 1

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
        values = {name: getattr(moved, name) for name in changed}
        self.connection.execute(_MOVE_ATTEMPT, {"key": attempt.id, **values})
        return moved

    def _write_job(self, job: Job, attempt: Attempt, newest: Step, attempt_status: HelixJobStatus) -> Job:
        status = states.derive_job(attempt_status)
        changed = status is not job.status
        settled = status.is_settled
        moved = replace(
            job,
            status=status,
            reason=newest.reason,
            status_details=attempt.status_details,
            error_details=attempt.error_details,
            updated_at=self.now,
            status_since=self.now if changed else job.status_since,
            stopped_at=(self.now if changed else job.stopped_at) if settled else None,
            stopped_mark=(self.mark if changed else job.stopped_mark) if settled else None,
            # what it took while it ran says nothing of what it takes now; it is measured presently
            storage_bytes=None if changed and settled else job.storage_bytes,
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
        self.connection.execute(_MOVE_JOB, {"key": job.id, **{name: getattr(job, name) for name in names}})


def _is_current(step: Step, job: Job) -> bool:
    return step.attempt_id == job.attempt_id and job.status is not HelixJobStatus.DELETION_PENDING
