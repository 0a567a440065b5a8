"""What a watch of a job yields, and how it ends without one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from nemo_helix_plugin.errors import NemoError
from nemo_helix_plugin.jobs.schemas import Status


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True)

    job_name: str


class JobStatusEvent(_Event):
    """The job has this status now."""

    kind: Literal["status"] = "status"
    status: Status
    reason: str | None = None
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    attempt_id: str | None = None
    since: datetime | None = None
    """When the job ended or was paused, where it has and the service reports it."""
    terminal: bool = False
    """Whether the watch ends here: completed, error, cancelled, or paused."""
    successful: bool = False
    """Whether it ended in completed."""


class JobLogEvent(_Event):
    """A line of the job's log."""

    kind: Literal["log"] = "log"
    timestamp: datetime
    step_id: str | None = None
    """The step's name."""
    task_id: str | None = None
    message: str


class JobWarningEvent(_Event):
    """Something is not as it should be, but the watch goes on."""

    kind: Literal["warning"] = "warning"
    message: str


JobWatchEvent = JobStatusEvent | JobLogEvent | JobWarningEvent


class JobWatchTimeoutError(NemoError):
    """The job did not end within the time that the watch was given."""
