"""A job as a row of a list, and the words that lists and pages share."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from nemo_helix_plugin.job_words import job_state, tags, times
from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs import series
from nemo_helix_server.jobs.bill import UsedTime
from nemo_helix_server.pages import spec_diff
from nemo_pages.runs.rows import Measure, RunCost, RunKind, RunProgress, RunRow, StateGroup

Record = Mapping[str, Any]
CURVES = ("train_loss", "loss", "val_loss", "reward")
"""Of the first of these that a job has, a list shows the newest values."""
POINTS = 48
MOST_VALUES = 60
"""Of a spec, as columns."""
LONGEST_VALUE = 200
METRICS = (*series.DEFAULT_GLOBS, "tokens_per_second", "memory_bytes")
"""Which details of a job are metrics."""
_GROUPS = {
    HelixJobStatus.PAUSED: StateGroup.PAUSED,
    HelixJobStatus.ERROR: StateGroup.FAILED,
    HelixJobStatus.COMPLETED: StateGroup.SUCCEEDED,
}


def group_of(status: HelixJobStatus) -> StateGroup:
    """The colour and sign of a status."""
    if status in _GROUPS:
        return _GROUPS[status]
    if status.holds_workload:
        return StateGroup.RUNNING
    return StateGroup.WAITING if status.is_under_way or status.is_new else StateGroup.ENDED


def path_of(workspace: str, name: str) -> str:
    """The address of a job's page, without the root path."""
    return f"/jobs/{workspace}/{name}"


def row_of(job: Record, curve: Sequence[float], now: datetime, used: UsedTime | None = None) -> RunRow:
    """The row of a job; ``curve`` holds its newest values, ``used`` what its starts have used so far."""
    status = HelixJobStatus(job["status"])
    found = job_state.details(job)
    workspace, name = str(job["workspace"]), str(job["name"])
    progress = _progress(found, status)
    said = job_state.note(job, now)
    return RunRow(
        key=f"job/{workspace}/{name}",
        kind=RunKind.JOB,
        name=name,
        path=path_of(workspace, name),
        run=f"{workspace}/{name}",
        state=status.value,
        group=group_of(status),
        submitted_at=seconds(job["created_at"]) or 0.0,
        workspace=workspace,
        reason="" if progress is not None and said == job_state.progress(found) else said,
        progress=progress,
        measure=_measure(found),
        curve=tuple(curve),
        cost=_cost(used),
        changed_at=seconds(job["updated_at"]),
        tags=tags.tags_of(job.get("custom_fields")),
        note=str(job.get("description") or ""),
        values=_values(job, found),
    )


def seconds(moment: object) -> float | None:
    """A moment of the wire in UTC seconds."""
    found = times.parsed(moment)
    return found.timestamp() if found else None


def _progress(found: Record, status: HelixJobStatus) -> RunProgress | None:
    step, last = found.get("step"), found.get("max_steps")
    if not isinstance(step, int) or isinstance(step, bool):
        return None
    left = found.get("seconds_left") if status.reports_progress else None
    return RunProgress(
        done=step,
        total=last if isinstance(last, int) and last > 0 else None,
        unit="steps",
        left_s=float(left) if isinstance(left, int | float) and not isinstance(left, bool) else None,
    )


def _cost(used: UsedTime | None) -> RunCost | None:
    """Hours of GPUs where it had any, else of machines."""
    if used is None:
        return None
    if used.gpu_hours:
        return RunCost(amount=used.gpu_hours, unit="GPU h")
    return RunCost(amount=used.node_hours, unit="node h") if used.node_hours else None


def _values(job: Record, found: Record) -> dict[str, str | float | int | bool]:
    """What columns are made of: the spec's values by their keys, and the newest metrics."""
    values: dict[str, str | float | int | bool] = {"source": str(job["source"])}
    for key, value in itertools.islice(spec_diff.flat(job["spec"]), MOST_VALUES):
        if isinstance(value, str):
            values[f"spec.{key}"] = value[:LONGEST_VALUE]
        elif isinstance(value, bool | int | float) and abs(value) < 2**63:
            values[f"spec.{key}"] = value
    for name, value in found.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_metric(name):
            values[f"metric.{name}"] = float(value)
    return values


def _is_metric(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in METRICS)


def _measure(found: Record) -> Measure | None:
    for name in CURVES:
        value = found.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Measure(name=name.replace("_", " "), value=float(value))
    return None
