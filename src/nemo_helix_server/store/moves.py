"""Changing a status: the only place that writes one, by the table of `jobs.states`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.model import Job, Json, Moved, Task
from nemo_helix_server.jobs.states import Event, Reason
from nemo_helix_server.store.reader import Reader


class Moving(Reader):
    """Transitions of steps, jobs and tasks."""

    def move(
        self,
        step_id: str,
        event: Event,
        *,
        who: str,
        why: str,
        expected: HelixJobStatus | Collection[HelixJobStatus] | None = None,
        version: int | None = None,
        reason: Reason | None = None,
        details: Mapping[str, Any] | None = None,
        error: Json | None = None,
        task: str | None = None,
    ) -> Moved | None:
        """Let an event happen to a step, and to its attempt and job what follows from it.

        None, and nothing written, when the step is not (any more) as expected: in one of the `expected` statuses,
        of the `version` the caller had seen, in a status from which the event leads somewhere, and part of its
        job's current attempt in a job that is not being removed.

        `details` are merged into the step's status details key by key, a None value removes its key; `error`
        becomes the error details of step and attempt. `task` names the new task of an `ACCEPTED` step, which is
        made in the same unit, before its process is started. A step that completes makes its successor.
        Stamps of the lifecycle (`pause_requested_at`, `resumed_at`, `stopped_at`, `image_digest_at_save`) are
        written here, and one transition each for the step and, if it changed, the job.
        """
        raise NotImplementedError

    def move_job(self, job_id: str, event: Event, *, who: str, why: str) -> Job | None:
        """Let an event happen to the job alone: `DELETE_REQUESTED`. None when it means nothing there."""
        raise NotImplementedError

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
    ) -> Task:
        """Write a task's status and progress, making the task when it is new.

        A status that the task cannot take any more is left out; the details are kept all the same. Details are
        merged into the task and into the attempt (that is how progress shows on the job).
        """
        raise NotImplementedError
