"""Evaluations as rows of the page Runs: one for each benchmark of a run."""

from __future__ import annotations

from typing import Final

from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.status.report import FRESH, BenchmarkStatus
from nemo_pages.runs.rows import Measure, RunKind, RunProgress, RunRow, StateGroup
from nemo_runs.clock import moment

GROUPS: Final = {
    BenchmarkState.QUEUED: StateGroup.WAITING,
    BenchmarkState.RUNNING: StateGroup.RUNNING,
    BenchmarkState.SUCCEEDED: StateGroup.SUCCEEDED,
    BenchmarkState.STOPPED: StateGroup.ENDED,
    BenchmarkState.FAILED: StateGroup.FAILED,
    BenchmarkState.CANCELLED: StateGroup.ENDED,
    BenchmarkState.UNKNOWN: StateGroup.UNKNOWN,
}
"""The group of each state of a benchmark."""


def evaluation_row(record: SubmissionRecord, status: BenchmarkStatus, *, now: float) -> RunRow:
    """The row of one benchmark of a submission; ``now`` is in UTC seconds."""
    progress = None
    if status.done is not None:
        progress = RunProgress(done=status.done, total=status.expected, unit="rollouts", left_s=status.eta_s)
    measure = None
    if status.mean_reward is not None:
        measure = Measure(name="mean reward", value=status.mean_reward)
    age = status.state_age_s
    return RunRow(
        key=f"evaluation/{record.gym_job_id}/{status.benchmark}",
        kind=RunKind.EVALUATION,
        name=status.benchmark,
        path=f"/evaluations/{record.gym_job_id}",
        run=record.gym_job_id,
        state=status.state,
        group=GROUPS[status.state],
        submitted_at=_seconds(record.submitted_at),
        reason=status.reason,
        progress=progress,
        measure=measure,
        changed_at=None if status.progress_age_s is None else now - status.progress_age_s,
        seen_at=None if age is None or age < FRESH else now - age,
        silent=status.silent,
        tags=tuple(f"{name}={value}" for name, value in record.labels.items()),
        values={"cluster": record.cluster, "executor": record.executor, "jobs": status.links},
    )


def _seconds(text: str) -> float:
    try:
        return moment(text) / 1_000_000
    except ValueError:
        return 0.0
