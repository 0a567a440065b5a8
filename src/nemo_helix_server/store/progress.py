"""Writing what workloads and the controller say of steps, attempts and tasks, apart from statuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import update

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs import stamps, task_states
from nemo_helix_server.jobs.model import Attempt, Json, Step, StepTask
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.store import schema
from nemo_helix_server.store.moves import Moving

_TASK_EVENTS = {
    HelixJobStatus.ACTIVE: StatusEvent.STARTED,
    HelixJobStatus.PAUSING: StatusEvent.PAUSE_REQUESTED,
    HelixJobStatus.PAUSED: StatusEvent.CHECKPOINT_VERIFIED,
    HelixJobStatus.CANCELLING: StatusEvent.CANCEL_REQUESTED,
    HelixJobStatus.CANCELLED: StatusEvent.STOPPED,
    HelixJobStatus.COMPLETED: StatusEvent.FINISHED,
    HelixJobStatus.ERROR: StatusEvent.FAILED,
}


class ProgressWriting(Moving):
    """Details of steps, attempts and tasks; a status of a step is never touched here."""

    def move_task(
        self,
        step_id: str,
        name: str,
        to: HelixJobStatus,
        *,
        who: str,
        details: Mapping[str, Any] | None = None,
        error: Json | None = None,
        error_stack: str | None = None,
    ) -> StepTask | None:
        """Write a task's status and progress, making the task if it is new; None without such a step.

        A status that the task cannot take any more is left out; the details are kept all the same. Details
        are merged into the task and into the attempt (that is how progress shows on the job).
        """
        step = self.step(step_id)
        if step is None:
            return None
        before = self.task(step_id, name) or self.insert_task(step, name)
        moves = before.status is not to and task_states.task_may_become(before.status, to)
        task = replace(
            before,
            status=to if moves else before.status,
            status_details=stamps.merged(before.status_details, details),
            error_details=error if error is not None else before.error_details,
            error_stack=error_stack if error_stack is not None else before.error_stack,
            updated_at=self.now,
        )
        names = ("status", "status_details", "error_details", "error_stack", "updated_at")
        self.connection.execute(
            update(schema.tasks).where(schema.tasks.c.id == task.id),
            {name: getattr(task, name) for name in names},
        )
        if details:
            self.note_attempt(step.attempt_id, details)
        job = self.job_by_id(step.job_id)
        if moves and job is not None:
            self.record(
                job,
                _TASK_EVENTS[to],
                before.status,
                to,
                who=who,
                why="the workload said so",
                step=step,
                task=name,
            )
        return task

    def note_step(self, step_id: str, details: Mapping[str, Any]) -> Step | None:
        """Merge into a step's status details; neither its status nor its clocks move."""
        step = self.step(step_id)
        if step is None:
            return None
        noted = replace(step, status_details=stamps.merged(step.status_details, details), updated_at=self.now)
        if noted.status_details != step.status_details:
            self.connection.execute(
                update(schema.steps).where(schema.steps.c.id == step_id),
                {"status_details": noted.status_details, "updated_at": self.now},
            )
        return noted

    def note_attempt(self, attempt_id: str, details: Mapping[str, Any]) -> Attempt | None:
        """Merge into an attempt's status details; neither its status nor its clocks move."""
        attempt = self.attempt(attempt_id)
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

    def note_image(self, step_id: str, digest: str | None, name: str) -> Step | None:
        """Record what a step runs in, with a warning where that is not what saved its checkpoint.

        `name` says what the digest is of, for people: an image's reference, or an environment.
        """
        step = self.step(step_id)
        return self.note_step(step_id, stamps.image(step.status_details, digest, name)) if step else None
