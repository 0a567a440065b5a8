"""Rows of the store as values. Moments are integer microseconds UTC; JSON columns are plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from nemo_helix_plugin.jobs.types import HelixJobStatus

Json = Mapping[str, Any]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: the name that transitions record, what they may do, and where."""

    name: str
    role: str = "admin"
    """read, operate or admin."""
    workspace: str | None = None
    """The one workspace the caller is confined to; None: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRow:
    """A namespace of jobs, secrets and filesets."""

    name: str
    description: str | None
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job with what is shown of its current attempt.

    ``spec`` and ``platform_spec`` are the job's own; an attempt has its own copies.
    """

    id: str
    workspace: str
    name: str
    source: str
    status: HelixJobStatus
    """Derived from the current attempt, or deletion_pending."""
    reason: str | None
    project: str | None
    description: str | None
    spec: Json
    platform_spec: Json
    ownership: Json | None
    custom_fields: Json | None
    output_location: str | None
    fileset: str
    pause_ttl_seconds: int | None
    failed_ttl_seconds: int | None
    attempt_id: str
    attempt_seq: int
    status_details: Json
    error_details: Json | None
    created_by: str
    created_at: int
    updated_at: int
    status_since: int
    """When the status last changed."""
    stopped_at: int | None
    """When the current attempt settled in paused, error or cancelled: where a storage window starts."""
    storage_reclaimed_at: int | None
    storage_bytes: int | None
    storage_measured_at: int | None
    stopped_mark: str | None = None
    """``stopped_at`` by the clock of the machine's boot, see `nemo_runs.clock.age`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a job; its specs are copies that never change."""

    id: str
    job_id: str
    seq: int
    status: HelixJobStatus
    reason: str | None
    spec: Json
    platform_spec: Json
    status_details: Json
    error_details: Json | None
    metrics: Json | None
    """The series as they were when a rerun took over; None while the attempt is current."""
    checkpoint: str | None
    """Id of the checkpoint that a rerun was asked to start from; None: the newest verified one."""
    created_by: str
    created_at: int
    updated_at: int


EXECUTOR = "executor"
"""Key of the status details of a step and of a task: the name of the executor that has the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One entry of an attempt's platform_spec, made real when its turn comes."""

    id: str
    job_id: str
    attempt_id: str
    seq: int
    name: str
    status: HelixJobStatus
    reason: str | None
    spec: Json
    """The step as it is in platform_spec: name, environment, executor, config, lifecycle."""
    status_details: Json
    error_details: Json | None
    task: str | None
    """Name of the newest task (the token of the newest start); None: never started."""
    control_seq: int
    """Counts pause requests and withdrawals, so that a late answer to an earlier one is recognised."""
    version: int
    """Grows with each write of the status; expected by compare-and-set."""
    created_at: int
    updated_at: int
    status_since: int
    """When the status last changed: where deadlines start."""
    started_at: int | None
    """When the newest task was first seen running; None: not since it was accepted."""
    stopped_at: int | None
    since_mark: str | None = None
    """``status_since`` by the clock of the machine's boot, see `nemo_runs.clock.age`."""
    turn_at: int | None = None
    """When its turn began to count: when it was made, or when it was to start again."""
    turn_mark: str | None = None
    """The same by the clock of the machine's boot."""

    @property
    def executor(self) -> str:
        """The name of the executor that has its newest start; empty: the default one, or it has no start."""
        return str(self.status_details.get(EXECUTOR) or "")

    @property
    def pause_deadline_seconds(self) -> int:
        """How long a pause may take; 0: the step cannot be paused."""
        lifecycle = self.spec.get("lifecycle") or {}
        return int(lifecycle.get("pause_deadline_seconds") or 0)

    @property
    def pausable(self) -> bool:
        """Whether the workload knows how to save a checkpoint and exit."""
        return self.pause_deadline_seconds > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """A step with what running it takes from its job and attempt: what the controller works on."""

    step: Step
    workspace: str
    job_name: str
    job_status: HelixJobStatus
    attempt_seq: int
    attempt_checkpoint: str | None
    fileset: str
    output_location: str | None
    created_by: str
    is_current: bool
    """Whether the step belongs to the job's current attempt."""
    planned_steps: int
    secrets: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTask:
    """One process of a step: one start, one token."""

    id: str
    job_id: str
    attempt_id: str
    step_id: str
    name: str
    status: HelixJobStatus
    status_details: Json
    error_details: Json | None
    error_stack: str | None
    created_at: int
    updated_at: int

    @property
    def executor(self) -> str:
        """The name of the executor that has it; empty where that is not on record."""
        return str(self.status_details.get(EXECUTOR) or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A named pointer to an artifact."""

    job_id: str
    attempt_id: str
    name: str
    artifact_url: str
    artifact_storage_type: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRow:
    """One change of a status, kept for good. ``step`` and ``task`` are None for a change of the job."""

    seq: int
    workspace: str
    job_id: str
    job: str
    attempt_id: str | None
    step_id: str | None
    step: str | None
    task: str | None
    origin: HelixJobStatus | None
    """None: the thing was made."""
    to: HelixJobStatus
    event: str
    reason: str | None
    at: int
    who: str
    why: str
    about: str | None = None
    """job, step or task: what changed its status. A step's names its newest task, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """One value of one series of a job's step; a step number appears once in a series."""

    step: int
    epoch: float | None
    name: str
    value: float


class WritersStart(NamedTuple):
    """Where the newest writer of a training went on."""

    step: int
    """The training step of its checkpoint; 0: it began at the first step, or nothing is known."""
    generation: int
    """The writer's, see `nemo_trainer.contract.generations`; 0: none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """A checkpoint as its manifest described it; ``pinned_path`` is relative to the data directory."""

    id: str
    job_id: str
    workspace: str
    job: str
    attempt_id: str | None
    step_name: str
    task: str | None
    step: int
    size: int
    reason: str
    created_at: int
    verified_at: int | None
    """When its digests were last seen right; None: only names and sizes were."""
    problem: str | None
    """Why it cannot be used; None: nothing is known against it."""
    present: bool
    """Whether it is still in the job's own storage."""
    metrics: Json
    generation: int = 0
    """The one that saved it, see `nemo_trainer.contract.generations`; 0: none is named."""
    pin_requested_at: int | None
    pin_requested_by: str | None
    pinned_at: int | None
    pinned_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An access token as it is kept: the digest, never the token."""

    id: str
    name: str
    digest: str
    role: str
    workspace: str | None
    created_at: int
    created_by: str
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRow:
    """What is known of a secret; its value is a file, never a row."""

    workspace: str
    name: str
    description: str | None
    created_by: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a transition left behind."""

    job: Job
    attempt: Attempt
    step: Step
    next_step: Step | None
    """The step that was made because this one completed."""
    origin: HelixJobStatus


@dataclass(frozen=True, slots=True)
class RowPage(Generic[Item]):
    """A part of a list, and how long the list is."""

    items: tuple[Item, ...]
    total: int
