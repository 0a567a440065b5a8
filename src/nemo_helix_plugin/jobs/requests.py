"""Bodies and queries that are sent to the Jobs service; anything unknown in them is an error."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints, model_validator

from nemo_helix_plugin.jobs import models, names
from nemo_helix_plugin.jobs.platform_spec import HelixJobSpec, Seconds
from nemo_helix_plugin.jobs.schemas import ArtifactStorageType
from nemo_helix_plugin.jobs.statuses import HelixJobStatus

ShortText = Annotated[str, StringConstraints(max_length=4096)]
Filter = str | dict[str, Any]
"""A filter as text (``status:"error" AND name~"llama"``), or as the JSON tree."""


class JobSort(StrEnum):
    """Order of a list of jobs; the leading minus is newest (or last) first."""

    CREATED_AT = "created_at"
    CREATED_AT_DESCENDING = "-created_at"
    UPDATED_AT = "updated_at"
    UPDATED_AT_DESCENDING = "-updated_at"
    SOURCE = "source"
    SOURCE_DESCENDING = "-source"


class AttemptSort(StrEnum):
    """Order of a job's attempts."""

    SEQ = "seq"
    SEQ_DESCENDING = "-seq"


class JobControl(models.RequestModel):
    """What can be changed about a job while it exists; null, or leaving a field out, keeps what is set."""

    pause_ttl_seconds: Seconds | None = None
    """How long the storage is kept after a pause; measured from the pause. 0: the next pass deletes it."""
    failed_ttl_seconds: Seconds | None = None
    """How long the storage is kept after an error; measured from the error."""


class CreateHelixJobRequest(models.RequestModel):
    """A new job."""

    name: names.EntityName | None = None
    description: ShortText | None = None
    project: ShortText | None = None
    source: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    spec: models.JsonObject
    platform_spec: HelixJobSpec
    ownership: models.JsonObject | None = None
    custom_fields: models.JsonObject | None = None
    output_location: ShortText | None = None
    """An existing fileset in which the job's artifacts are put; without it the job gets one of its own."""
    control: JobControl | None = None

    @model_validator(mode="after")
    def _name_fits_its_fileset(self) -> CreateHelixJobRequest:
        if self.name is not None and self.output_location is None:
            problem = names.problem_with(self.name, longest=names.LONGEST_JOB)
            if problem:
                raise ValueError(f"{problem} for a job without an output_location")
        return self


JobTag = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x20\x7f]+$")]
"""A tag: one word without blanks."""


class JobTagChanges(models.RequestModel):
    """Which tags a job gets and loses; those that it has and nobody names stay."""

    add: list[JobTag] = Field(default_factory=list)
    remove: list[JobTag] = Field(default_factory=list)


class UpdateHelixJobRequest(models.RequestModel):
    """Changes of a job; ``spec`` and ``platform_spec`` go together."""

    description: ShortText | None = None
    tags: JobTagChanges | None = None
    """Changes of the tags, which are kept as ``custom_fields.tags``."""
    spec: models.JsonObject | None = None
    platform_spec: HelixJobSpec | None = None

    @model_validator(mode="after")
    def _specs_together(self) -> UpdateHelixJobRequest:
        if (self.spec is None) != (self.platform_spec is None):
            raise ValueError("spec and platform_spec are updated together; one of them is missing")
        return self


class HelixJobStepStatusUpdate(models.RequestModel):
    """A step's new status, written only if the step is still the expected one."""

    status: HelixJobStatus
    expected_step_id: str | None = None
    status_details: models.JsonObject | None = None
    error_details: models.JsonObject | None = None


class HelixJobTaskUpdate(models.RequestModel):
    """A task's progress; details are merged key by key."""

    status: HelixJobStatus = HelixJobStatus.PENDING
    status_details: models.JsonObject | None = None
    error_details: models.JsonObject | None = None
    error_stack: str | None = None


class CreateHelixJobResultRequest(models.RequestModel):
    """A pointer to an artifact."""

    artifact_url: Annotated[str, StringConstraints(min_length=1)]
    artifact_storage_type: ArtifactStorageType = ArtifactStorageType.FILESET


class _Query(models.RequestModel):
    """Query parameters; what is None is not sent."""


class ListJobsQueryParams(_Query):
    """Which page of which jobs."""

    page: int | None = Field(default=None, ge=1)
    page_size: int | None = Field(default=None, ge=1)
    sort: JobSort | None = None
    filter: Filter | None = None


class ListAttemptsQueryParams(_Query):
    """Which page of which attempts."""

    page: int | None = Field(default=None, ge=1)
    page_size: int | None = Field(default=None, ge=1)
    sort: AttemptSort | None = None
    filter: Filter | None = None
    """By ``status``: one, or a list of several."""


class ListStepsQueryParams(_Query):
    """Which page of which steps."""

    page: int | None = Field(default=None, ge=1)
    page_size: int | None = Field(default=None, ge=1)
    filter: Filter | None = None
    """By ``status``, ``job`` and ``source``: one of each, or a list of several."""


class ListResultsQueryParams(_Query):
    """Which results."""

    sort: str | None = None
    attempt_id: str | None = None
    """An attempt's id, or ``current``."""


class JobLogsQueryParams(_Query):
    """Which part of a job's log; ``tail`` goes with neither ``limit`` nor ``page_cursor``."""

    limit: int | None = Field(default=None, ge=1, le=10_000)
    page_cursor: str | None = None
    tail: int | None = Field(default=None, ge=1, le=10_000)
    attempt_id: str | None = None
    """An attempt's id, or ``current``."""
    step_id: str | None = None
    """The step's **name**."""
    task_id: str | None = None


class ListTransitionsQueryParams(_Query):
    """Which transitions of a job, oldest first."""

    since: int | None = Field(default=None, ge=0)
    """Only those after this ``seq``."""
    limit: int | None = Field(default=None, ge=1, le=10_000)
