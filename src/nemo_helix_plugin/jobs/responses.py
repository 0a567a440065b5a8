"""What the Jobs service answers about jobs, attempts, steps, tasks, checkpoints and transitions."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nemo_helix_plugin.jobs import models
from nemo_helix_plugin.jobs.platform_spec import HelixJobSpecRecord, HelixJobStepRecord
from nemo_helix_plugin.jobs.schemas import Status
from nemo_helix_plugin.jobs.statuses import HelixJobStatus


class AuthContext(models.ResponseModel):
    """Who submitted; never a credential."""

    principal: str | None = None
    role: str | None = None
    workspace: str | None = None


class JobControlRecord(models.OpenModel):
    """What is set for a job; null where the platform's default holds."""

    pause_ttl_seconds: int | None = None
    failed_ttl_seconds: int | None = None


class HelixJobResponse(models.ResponseModel):
    """A job, with the status of its current attempt."""

    id: str
    attempt_id: str | None = None
    name: str
    workspace: str
    project: str | None = None
    description: str | None = None
    source: str | None = None
    spec: dict[str, Any] = Field(default_factory=dict)
    platform_spec: HelixJobSpecRecord = Field(default_factory=HelixJobSpecRecord)
    control: JobControlRecord | None = None
    fileset: str | None = None
    output_location: str | None = None
    status: Status
    reason: str | None = None
    """Why the status is what it is, where the status alone does not say: ``pause_window_ended``, …."""
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    storage_expires_at: models.Moment | None = None
    """When the job's storage is deleted; null while no window runs."""
    storage_bytes: int | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None
    stopped_at: models.Moment | None = None
    """When it ended or was paused; null while it does neither."""
    ownership: dict[str, Any] | None = None
    custom_fields: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}' in {self.workspace}: {self.status}>"


class HelixJobAttemptResponse(models.ResponseModel):
    """One run of a job."""

    id: str
    name: str | None = None
    job: str
    workspace: str
    seq: int = 0
    spec: dict[str, Any] = Field(default_factory=dict)
    platform_spec: HelixJobSpecRecord = Field(default_factory=HelixJobSpecRecord)
    status: Status
    reason: str | None = None
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None
    is_current: bool = False


class AllocationLine(models.ResponseModel):
    """One start of a step on the bill of its job; times in seconds."""

    attempt: int = 0
    """The number of the attempt, from 0."""
    step: str
    task: str
    place: str | None = None
    """Where it ran, where that does not go without saying."""
    nodes: int = 1
    gpus: int = 0
    """On all nodes together."""
    began_at: models.Moment | None = None
    """When its command began; null while it waits, and where it never did."""
    ended_at: models.Moment | None = None
    waited_seconds: float = 0.0
    """Before it began, since its step could have run: in queues, and after an interruption."""
    seconds: float = 0.0
    """How long its command ran."""
    gpu_seconds: float = 0.0
    startup_seconds: float = 0.0
    """Of that, until its first training step was finished."""
    first_step: int | None = None
    """The training step that it went on from; null of a step that does not train."""
    last_step: int | None = None
    """The last training step that it finished."""
    kept_step: int | None = None
    """The training step that its newest checkpoint, or an earlier one, has kept."""
    repeated_steps: int = 0
    """Training steps that another start has to do again."""
    lost_seconds: float = 0.0
    """How long it ran after what is kept of it was saved, where another start does that again."""
    end: str | None = None
    """``completed``, ``failed``, ``interrupted``, ``paused`` or ``cancelled``; null before its end."""
    unannounced: bool = False
    """Whether its allocation was taken away without a notice."""
    cause: str | None = None
    """Why it was interrupted: a clause such as ``it was preempted``."""
    notice: str | None = None
    """What its scheduler announced before, such as ``preemption``; null where nothing is known of that."""
    noticed_at: models.Moment | None = None
    grace_seconds: float | None = None
    """How long before the end of its allocation that was."""
    recorded: bool = True
    """Whether it left a record; else its times are those at which the service saw its status change."""


class BillTotals(models.ResponseModel):
    """The sums of a bill; times in seconds."""

    allocations: int = 0
    interruptions: int = 0
    seconds: float = 0.0
    node_seconds: float = 0.0
    gpu_seconds: float = 0.0
    waited_seconds: float = 0.0
    startup_seconds: float = 0.0
    lost_seconds: float = 0.0
    lost_gpu_seconds: float = 0.0
    repeated_steps: int = 0


class JobBill(models.ResponseModel):
    """What the allocations of a job used, waited for, and lost; all attempts, oldest first."""

    job: str
    workspace: str | None = None
    status: Status
    allocations: list[AllocationLine] = Field(default_factory=list)
    totals: BillTotals = Field(default_factory=BillTotals)


class _Entity(models.ResponseModel):
    id: str
    entity_id: str | None = None
    parent: str | None = None
    attempt_id: str | None = None
    name: str
    workspace: str | None = None
    project: str | None = None
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    created_at: models.Moment | None = None
    created_by: str | None = None
    updated_at: models.Moment | None = None
    updated_by: str | None = None


class HelixJobStepResponse(_Entity):
    """One step of an attempt; a workload reads ``status`` here to see that it should pause."""

    config: Any = None
    status: Status = HelixJobStatus.CREATED
    db_version: int | None = None


class HelixJobStepWithContext(models.ResponseModel):
    """One step in a list over jobs."""

    id: str
    job: str
    attempt_id: str | None = None
    fileset: str | None = None
    artifact_base_path: str | None = None
    workspace: str
    name: str
    step_spec: HelixJobStepRecord | None = None
    status: Status = HelixJobStatus.CREATED
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    auth_context: AuthContext | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None


class HelixJobTaskResponse(_Entity):
    """One process of a step."""

    step_id: str | None = None
    status: Status = HelixJobStatus.PENDING
    error_stack: str | None = None


class Checkpoint(models.ResponseModel):
    """A checkpoint of a job, in its storage or pinned outside of it."""

    id: str
    job: str
    workspace: str | None = None
    attempt_id: str | None = None
    step_name: str | None = None
    """The job's step that saved it."""
    task: str | None = None
    step: int
    """The training step after which it was saved, counted from 1."""
    size_bytes: int | None = None
    verified: bool = False
    """Whether the manifest is complete and every file is there as it says."""
    problem: str | None = None
    """What is wrong with a checkpoint that does not verify."""
    reason: str | None = None
    """Why it was saved: periodic, pause, final or asked."""
    best: bool = False
    """Whether it is the best one by the metric that the training chooses by."""
    pinned: bool = False
    pinned_at: models.Moment | None = None
    location: str | None = None
    """Folder on the service's machine, where that is shown."""
    metrics: dict[str, float] = Field(default_factory=dict)
    created_at: models.Moment | None = None


class Transition(models.ResponseModel):
    """One change of one status: who, when and why."""

    seq: int
    job: str
    job_id: str | None = None
    workspace: str | None = None
    attempt_id: str | None = None
    step: str | None = None
    """The step's name; null for a change of the job or of an attempt."""
    task: str | None = None
    about: str | None = None
    """``job``, ``step`` or ``task``: what changed. A step's row names its newest task, too."""
    from_status: Status | None = Field(default=None, alias="from")
    to_status: Status = Field(alias="to")
    at: models.Moment
    who: str | None = None
    why: str | None = None


class Refusal(models.ResponseModel):
    """A job that was not acted on, with the sentence that says why."""

    name: str
    workspace: str | None = None
    status: Status | None = None
    detail: str = ""


class PauseAllResponse(models.ResponseModel):
    """What a pause of everything did."""

    pausing: list[str] = Field(default_factory=list)
    """Names of the jobs that are pausing or paused now."""
    refused: list[Refusal] = Field(default_factory=list)


class ExecutionProfile(models.ResponseModel):
    """Where steps of a provider can run."""

    provider: str
    profile: str
    backend: str
    config: dict[str, Any] = Field(default_factory=dict)
    given: list[str] | None = None
    """The keys of the configuration that the operator has set; the others have their defaults."""


class ProfileFinding(models.ResponseModel):
    """One line of the check of an execution profile."""

    verdict: str
    """``ok``, ``unknown`` (it cannot be seen from the service), ``warning`` or ``problem``."""
    about: str
    """A word or two."""
    text: str
    """What is so, and what to change where that is wrong."""


class ProfileCheck(models.ResponseModel):
    """What would keep steps of an execution profile from running, found out without a job."""

    provider: str
    profile: str
    backend: str
    ok: bool
    """Whether there is no problem."""
    findings: list[ProfileFinding]
