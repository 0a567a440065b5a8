"""Rows as they go over the wire: the plugin's response types as plain values, moments as ISO 8601 text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_helix_server.jobs import identifiers, retention
from nemo_helix_server.jobs.bill import BilledAllocation, totals
from nemo_helix_server.jobs.model import Attempt, Job, Result, Step, StepContext, StepTask, TransitionRow
from nemo_helix_server.jobs.ports import StorageLimits
from nemo_runs.clock import SECOND, Clock, wire

Document = dict[str, Any]


def expiry(row: Job, limits: StorageLimits) -> int | None:
    """When the job's storage is deleted."""
    return retention.storage_expires_at(
        row.status,
        stopped_at=row.stopped_at,
        reclaimed_at=row.storage_reclaimed_at,
        pause_ttl_seconds=row.pause_ttl_seconds,
        failed_ttl_seconds=row.failed_ttl_seconds,
        limits=limits,
    )


def with_series(details: Mapping[str, Any], metrics: Mapping[str, Any] | None) -> Document:
    """Status details with the series under ``metrics``."""
    plain = {key: value for key, value in details.items() if key != "metrics"}
    return {**plain, "metrics": metrics} if metrics is not None else plain


def job(row: Job, limits: StorageLimits, clock: Clock, metrics: Mapping[str, Any] | None = None) -> Document:
    """A job, with the status of its current attempt."""
    expires_at = retention.shown_expiry(
        expiry(row, limits), stopped_at=row.stopped_at, stopped_mark=row.stopped_mark, clock=clock
    )
    control = {"pause_ttl_seconds": row.pause_ttl_seconds, "failed_ttl_seconds": row.failed_ttl_seconds}
    return {
        "id": row.id,
        "attempt_id": row.attempt_id,
        "name": row.name,
        "workspace": row.workspace,
        "project": row.project,
        "description": row.description,
        "source": row.source,
        "spec": row.spec,
        "platform_spec": row.platform_spec,
        "control": control,
        "fileset": row.fileset,
        "output_location": row.output_location,
        "status": row.status.value,
        "reason": row.reason,
        "status_details": with_series(row.status_details, metrics),
        "error_details": row.error_details,
        "storage_expires_at": None if expires_at is None else wire(expires_at),
        "storage_bytes": row.storage_bytes,
        "created_at": wire(row.created_at),
        "updated_at": wire(row.updated_at),
        "stopped_at": None if row.stopped_at is None else wire(row.stopped_at),
        "ownership": row.ownership,
        "custom_fields": row.custom_fields,
    }


def attempt(row: Attempt, of: Job, metrics: Mapping[str, Any] | None = None) -> Document:
    """One run of a job."""
    return {
        "id": row.id,
        "name": identifiers.attempt_name(row.id),
        "job": of.name,
        "workspace": of.workspace,
        "seq": row.seq,
        "spec": row.spec,
        "platform_spec": row.platform_spec,
        "status": row.status.value,
        "reason": row.reason,
        "status_details": with_series(row.status_details, metrics),
        "error_details": row.error_details,
        "created_at": wire(row.created_at),
        "updated_at": wire(row.updated_at),
        "is_current": row.id == of.attempt_id,
    }


def step(row: Step, of: Job) -> Document:
    """One step of an attempt."""
    return {
        "id": row.id,
        "entity_id": row.id,
        "parent": row.attempt_id,
        "attempt_id": row.attempt_id,
        "name": row.name,
        "workspace": of.workspace,
        "project": of.project,
        "config": row.spec.get("config"),
        "status": row.status.value,
        "reason": row.reason,
        "status_details": row.status_details,
        "error_details": row.error_details or {},
        "created_at": wire(row.created_at),
        "created_by": of.created_by,
        "updated_at": wire(row.updated_at),
        "updated_by": None,
        "db_version": row.version,
    }


def step_in_context(row: StepContext) -> Document:
    """One step in a list over jobs."""
    return {
        "id": row.step.id,
        "job": row.job_name,
        "attempt_id": row.step.attempt_id,
        "fileset": row.output_location or row.fileset,
        "artifact_base_path": f"jobs/{row.job_name}" if row.output_location else None,
        "workspace": row.workspace,
        "name": row.step.name,
        "step_spec": row.step.spec,
        "status": row.step.status.value,
        "status_details": row.step.status_details,
        "error_details": row.step.error_details or {},
        "auth_context": {"principal": row.created_by},
        "created_at": wire(row.step.created_at),
        "updated_at": wire(row.step.updated_at),
    }


def task(row: StepTask, of: Job) -> Document:
    """One process of a step."""
    return {
        "id": row.id,
        "entity_id": row.id,
        "parent": row.step_id,
        "attempt_id": row.attempt_id,
        "step_id": row.step_id,
        "name": row.name,
        "workspace": of.workspace,
        "project": of.project,
        "status": row.status.value,
        "status_details": row.status_details,
        "error_details": row.error_details or {},
        "error_stack": row.error_stack,
        "created_at": wire(row.created_at),
        "created_by": of.created_by,
        "updated_at": wire(row.updated_at),
        "updated_by": None,
    }


def tree(
    row: Job,
    steps: Sequence[Step],
    tasks: Sequence[StepTask],
    limits: StorageLimits,
    clock: Clock,
    metrics: Mapping[str, Any] | None,
) -> Document:
    """The current attempt as a tree: job, steps, tasks."""
    names = ("id", "name", "status", "status_details", "error_details", "created_at", "updated_at")
    whole = job(row, limits, clock, metrics)
    shown = {name: whole[name] for name in (*names, "reason", "storage_expires_at")}
    children: dict[str, list[Document]] = {one.id: [] for one in steps}
    for leaf in tasks:
        found = task(leaf, row)
        children[leaf.step_id].append({name: found[name] for name in (*names, "error_stack")})
    branches = []
    for one in steps:
        found = step(one, row)
        branches.append({**{name: found[name] for name in names}, "tasks": children[one.id]})
    return {**shown, "steps": branches}


def result(row: Result, of: Job) -> Document:
    """A named pointer to an artifact."""
    base = f"/apis/jobs/v2/workspaces/{of.workspace}/jobs/{of.name}/results/{row.name}"
    return {
        "name": row.name,
        "job": of.name,
        "workspace": of.workspace,
        "project": of.project,
        "attempt_id": row.attempt_id,
        "artifact_url": row.artifact_url,
        "artifact_storage_type": row.artifact_storage_type,
        "download_url": f"{base}/download",
        "created_at": wire(row.created_at),
        "updated_at": wire(row.updated_at),
    }


def bill(of: Job, lines: Sequence[BilledAllocation]) -> Document:
    """What the allocations of a job came to, in seconds."""
    return {
        "job": of.name,
        "workspace": of.workspace,
        "status": of.status.value,
        "allocations": [_billed(line) for line in lines],
        "totals": totals(lines),
    }


def _billed(line: BilledAllocation) -> Document:
    record = line.record
    moments = {
        "began_at": record.began_at,
        "ended_at": None if line.running else record.ended_at,
        "noticed_at": record.noticed_at,
    }
    return {
        "attempt": line.attempt,
        "step": line.step,
        "task": line.task,
        "place": record.place or None,
        "nodes": record.nodes,
        "gpus": record.gpus,
        **{name: None if at is None else wire(round(at * SECOND)) for name, at in moments.items()},
        "waited_seconds": round(line.waited_seconds, 3),
        "seconds": round(record.seconds, 3),
        "gpu_seconds": round(record.seconds * record.gpus, 3),
        "startup_seconds": round(record.startup_seconds, 3),
        "first_step": record.first_step,
        "last_step": record.last_step,
        "kept_step": record.kept_step,
        "repeated_steps": line.repeated_steps,
        "lost_seconds": round(line.lost_seconds, 3),
        "end": line.end,
        "unannounced": record.unannounced,
        "cause": (record.cause or None) if line.end == "interrupted" else None,
        "notice": record.notice or None,
        "grace_seconds": record.grace_seconds,
        "recorded": line.recorded,
    }


def transition(row: TransitionRow) -> Document:
    """One change of a status."""
    return {
        "seq": row.seq,
        "workspace": row.workspace,
        "job": row.job,
        "job_id": row.job_id,
        "attempt_id": row.attempt_id,
        "step": row.step,
        "step_id": row.step_id,
        "task": row.task,
        "about": row.about or ("step" if row.step else "job"),
        "from": row.origin.value if row.origin else None,
        "to": row.to.value,
        "event": row.event,
        "reason": row.reason,
        "at": wire(row.at),
        "who": row.who,
        "why": row.why,
    }
