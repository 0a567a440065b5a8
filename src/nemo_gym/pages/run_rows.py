"""Evaluations as rows of the page Runs: one for each benchmark of a run."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.results.bill import Bill
from nemo_gym.orchestration.status.report import FRESH
from nemo_gym.pages.evaluations.evaluation_view import progress_of, seconds_of
from nemo_gym.pages.evaluations.state_groups import group_of
from nemo_gym.pages.index.known_runs import KnownBenchmark, KnownRun
from nemo_pages.runs.rows import Measure, RunCost, RunKind, RunRow

Values = dict[str, str | float | int | bool]


def evaluation_rows(run: KnownRun, workspace: str = "", bills: Sequence[Bill] = ()) -> list[RunRow]:
    """The rows of one run, which belongs to a workspace, or to none; ``bills``: those that are known."""
    costs = {bill.benchmark: _cost(bill) for bill in bills}
    return [_row(run, each, workspace, costs.get(each.name)) for each in run.benchmarks]


def _cost(bill: Bill) -> RunCost | None:
    """Money where all has a price, else hours of GPUs, else of what was allocated."""
    known = bill.costs
    if known is not None and known.total is not None and known.currency:
        return RunCost(amount=known.total, unit=known.currency)
    hours = bill.allocated / 3_600_000
    if not hours:
        return None
    return (
        RunCost(amount=hours * bill.gpus, unit="GPU h") if bill.gpus else RunCost(amount=hours, unit="node h")
    )


def _row(run: KnownRun, known: KnownBenchmark, workspace: str, cost: RunCost | None) -> RunRow:
    status, record, now = known.status, run.record, run.seen_at
    said_ago = status.progress_age_s if status is not None else known.progress_age
    age = status.state_age_s if status is not None else None
    return RunRow(
        key=f"evaluation/{run.run_id}/{known.name}",
        kind=RunKind.EVALUATION,
        name=known.name,
        path=f"/evaluations/{run.run_id}",
        run=run.run_id,
        state=known.state,
        group=group_of(known),
        submitted_at=seconds_of(run.made_at) or 0.0,
        workspace=workspace,
        reason=known.reason,
        progress=progress_of(known),
        measure=_measure(known),
        cost=cost,
        changed_at=None if said_ago is None else now - said_ago,
        seen_at=None if age is None or age < FRESH else now - age,
        silent=status.silent if status is not None else "",
        tags=tuple(dict.fromkeys([*run.annotations.tags, *_labels(record)])),
        note=run.annotations.note,
        values=_values(run, known),
    )


def _labels(record: SubmissionRecord | None) -> list[str]:
    return [f"{name}={value}" for name, value in record.labels.items()] if record is not None else []


def _measure(known: KnownBenchmark) -> Measure | None:
    """The score with its interval; until there is one the mean reward so far."""
    result = known.result
    if result.score is not None:
        return Measure(name="score", value=result.score, low=result.low, high=result.high, is_share=True)
    mean = known.status.mean_reward if known.status is not None else None
    return None if mean is None else Measure(name="mean reward so far", value=mean, is_share=True)


def _values(run: KnownRun, known: KnownBenchmark) -> Values:
    found: Values = {"model": known.result.model or ""} if known.result.model else {}
    if run.record is not None:
        found |= {"cluster": run.record.cluster, "executor": run.record.executor}
    if known.status is not None:
        found["jobs"] = known.status.links
    if run.record is None:
        found["folder"] = str(run.folder)
    found |= {f"metric.{name}": value for name, value in known.result.key_metrics.items()}
    return found
