"""What the service says about a job's state, results and logs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from nemo_helix_plugin.jobs import models
from nemo_helix_plugin.jobs.statuses import HelixJobStatus

Status = Annotated[HelixJobStatus | str, Field(union_mode="left_to_right")]
"""A status in a response: one of the enum, or the string of a service that knows more of them."""


class ArtifactStorageType(StrEnum):
    """Where a result's artifact is."""

    FILESET = "fileset"


class HelixJobTaskStatus(models.ResponseModel):
    """One task in the status tree."""

    id: str
    name: str
    status: Status = HelixJobStatus.PENDING
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    error_stack: str | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None


class HelixJobStepStatus(models.ResponseModel):
    """One step in the status tree."""

    id: str
    name: str
    status: Status = HelixJobStatus.CREATED
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    tasks: list[HelixJobTaskStatus] = Field(default_factory=list)
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None


class HelixJobStatusResponse(models.ResponseModel):
    """Status of a job, its current attempt's steps and their tasks."""

    id: str
    name: str
    status: Status
    reason: str | None = None
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    steps: list[HelixJobStepStatus] = Field(default_factory=list)
    storage_expires_at: models.Moment | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None


class HelixJobResultResponse(models.ResponseModel):
    """A named pointer to an artifact of a job."""

    name: str
    job: str
    workspace: str
    project: str | None = None
    attempt_id: str | None = None
    artifact_url: str
    artifact_storage_type: str = ArtifactStorageType.FILESET
    download_url: str | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None


class HelixJobLog(models.ResponseModel):
    """One line of a job's log."""

    timestamp: models.Moment
    job: str | None = None
    job_step: str | None = None
    job_task: str | None = None
    message: str = ""


class HelixJobLogPage(models.ResponseModel):
    """A part of a job's log, oldest line first."""

    data: list[HelixJobLog] = Field(default_factory=list)
    total: int | None = None
    next_page: str | None = None
    """Cursor of what follows; null at the end of the log, unless it can be followed from there."""
    prev_page: str | None = None
