"""What workloads and low-level callers report to the service: progress, details, statuses, results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_helix_plugin.jobs.types import (
    CreateHelixJobResultRequest,
    HelixJobStatus,
    HelixJobStepStatusUpdate,
    HelixJobTaskUpdate,
)
from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs import states
from nemo_helix_server.jobs.model import Caller, Job, Step
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.service import responses
from nemo_helix_server.service.lookups import CURRENT, Lookups, checked
from nemo_helix_server.service.responses import Document
from nemo_helix_server.store.writer import StoreWriter


class Reporting(Lookups):
    """Writes that no user makes by hand."""

    def merge_status_details(
        self,
        workspace: str,
        name: str,
        details: Mapping[str, Any],
        *,
        attempt: str = CURRENT,
        expected_step_id: str | None = None,
        expected_step_status: str | None = None,
    ) -> Document:
        """Merge into an attempt's details, and give the job.

        Refused with 409 when the attempt's newest step is not the expected one, or not in that status.
        """
        checked(details, "the status details")
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            found = self.find_attempt(writer, job, attempt)
            step = writer.steps.current(found.id)
            if expected_step_id not in {None, step.id} or expected_step_status not in {None, step.status}:
                raise StateConflictError(
                    f"job {job.name} is in step {step.name}, which is {step.status.value}, by now"
                )
            writer.attempts.note(found.id, details)
            job = writer.jobs.by_id(job.id) or job
        with self.store.read() as reader:
            return self.shown(reader, job)

    def update_step_status(
        self,
        caller: Caller,
        workspace: str,
        name: str,
        step: str,
        body: HelixJobStepStatusUpdate,
        *,
        attempt: str = CURRENT,
    ) -> Document:
        """Move a step to a status that the table allows.

        Refused with 409 where it does not, or when the step is not the expected one. The same status again
        only merges its details.
        """
        details = body.status_details or {}
        checked({"status_details": details, "error_details": body.error_details}, "the status")
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            found = self.find_step(writer, job, attempt, step)
            if body.expected_step_id not in {None, found.id}:
                raise StateConflictError(f"step {step} of job {job.name} is another one by now: {found.id}")
            if found.status is body.status:
                moved = writer.steps.note(found.id, details) or found
            else:
                moved = _moved(writer, caller, job, found, body)
            document = responses.step(moved, job)
        self.wake()
        return document

    def put_task(
        self,
        caller: Caller,
        workspace: str,
        name: str,
        step: str,
        task: str,
        body: HelixJobTaskUpdate,
        *,
        attempt: str = CURRENT,
    ) -> Document:
        """Record a task's progress."""
        checked(body.model_dump(mode="json"), "the task's progress")
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            found = self.find_step(writer, job, attempt, step)
            done = writer.tasks.move(
                found.id,
                task,
                HelixJobStatus(body.status),
                who=caller.name,
                details=body.status_details,
                error=body.error_details,
                error_stack=body.error_stack,
            )
            assert done is not None
            return responses.task(done, job)

    def create_result(
        self,
        caller: Caller,  # noqa: ARG002 - as in all that writes
        workspace: str,
        name: str,
        result: str,
        body: CreateHelixJobResultRequest,
    ) -> Document:
        """Name an artifact."""
        with self.store.write() as writer:
            job = self.find_job(writer, workspace, name)
            made = writer.results.put(job.id, result, body.artifact_url, body.artifact_storage_type.value)
            return responses.result(made, job)


def _moved(writer: StoreWriter, caller: Caller, job: Job, step: Step, body: HelixJobStepStatusUpdate) -> Step:
    event = states.event_between(step.status, body.status)
    moved = None
    if event is not None:
        moved = writer.statuses.move(
            step.id,
            StatusChange(
                event,
                who=caller.name,
                why="set by a caller",
                expected=step.status,
                details=body.status_details,
                error=body.error_details,
            ),
        )
    if moved is None:
        raise StateConflictError(
            f"step {step.name} of job {job.name} is {step.status.value} and cannot become {body.status.value}"
        )
    return moved.step
