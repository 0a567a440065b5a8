"""A job as a row of a list, and the words that lists and pages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from nemo_helix_plugin.job_words import job_state, times
from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_pages.runs.rows import Measure, RunKind, RunProgress, RunRow, StateGroup

Record = Mapping[str, Any]
CURVES = ("train_loss", "loss", "val_loss", "reward")
"""Of the first of these that a job has, a list shows the newest values."""
POINTS = 48
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


def row_of(job: Record, curve: Sequence[float], now: datetime) -> RunRow:
    """The row of a job; ``curve`` holds its newest values."""
    status = HelixJobStatus(job["status"])
    found = job_state.details(job)
    workspace, name = str(job["workspace"]), str(job["name"])
    progress = _progress(found)
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
        reason="" if progress is not None and said == job_state.progress(found) else said,
        progress=progress,
        measure=_measure(found),
        curve=tuple(curve),
        changed_at=seconds(job["updated_at"]),
        note=str(job.get("description") or ""),
    )


def seconds(moment: object) -> float | None:
    """A moment of the wire in UTC seconds."""
    found = times.parsed(moment)
    return found.timestamp() if found else None


def _progress(found: Record) -> RunProgress | None:
    step, last = found.get("step"), found.get("max_steps")
    if not isinstance(step, int) or isinstance(step, bool):
        return None
    return RunProgress(done=step, total=last if isinstance(last, int) and last > 0 else None, unit="steps")


def _measure(found: Record) -> Measure | None:
    for name in CURVES:
        value = found.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Measure(name=name.replace("_", " "), value=float(value))
    return None
