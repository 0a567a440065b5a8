"""What the metrics of a verifier come to: over rollouts, over tasks, and over the whole run.

A value that is missing is left out of the mean and counted. The functions of a verifier that make metrics of
many rollouts are code of others: one that fails costs its own metrics alone, and a note says so.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.failures import describe
from nemo_gym.rollouts.output.result_rows import checked_metrics
from nemo_gym.rollouts.output.stored_answers import GradedRollouts
from nemo_gym.rollouts.scores import columns as cols
from nemo_gym.rollouts.scores.columns import Columns
from nemo_gym.rollouts.scores.measured_metric import MeasuredMetric, Over
from nemo_gym.rollouts.scores.statistics import LEVEL, ClusterSums, clustered_interval
from nemo_gym.types import Estimate, MetricInfo, RolloutFailedError, Verifier
from nemo_gym.verifiers.registry import declared_metrics


@dataclass(slots=True)
class VerifierMetrics:
    """All metrics of a run, and what there is to note about them."""

    found: dict[str, MeasuredMetric] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def measure(columns: Columns, paths: RolloutPaths, verifier: Verifier | None) -> VerifierMetrics:
    """Measure what the rows hold, and with ``verifier`` what it makes of many rollouts."""
    metrics = VerifierMetrics()
    declared = declared_metrics(verifier)
    for name in columns.metrics:
        metrics.found[name] = over_rollouts(columns, name, declared.get(name, MetricInfo()))
    if columns.metrics_left_out:
        names = ", ".join(sorted(columns.metrics_left_out)[:5])
        metrics.notes.append(f"more than {cols.MAX_METRICS} metrics; not summarised: {names}")
    grade_group, aggregate = getattr(verifier, "grade_group", None), getattr(verifier, "aggregate", None)
    if grade_group is None and aggregate is None:
        return metrics
    unscored = cols.UNSCORED if getattr(verifier, "aggregates_unscored", False) else 0
    rollouts = GradedRollouts(paths, columns.num_repeats, columns.flagged(cols.MEASURED | unscored))
    for name, function, made in (
        ("grade_group", grade_group, _of_groups),
        ("aggregate", aggregate, _of_run),
    ):
        if function is not None and len(rollouts):
            try:
                metrics.found |= made(function, rollouts, declared)
            except Exception as error:  # noqa: BLE001 - code of others; the rest of the summary stands
                failure = describe(error, "verifier", verifier)
                metrics.notes.append(
                    f"{name} of the verifier failed ({failure.failure_type}: {failure.message}); its metrics "
                    "are missing"
                )
    return metrics


def over_rollouts(columns: Columns, name: str, info: MetricInfo) -> MeasuredMetric:
    """The mean of a metric over the recorded rollouts that have a value, masked ones left out."""
    column = columns.metrics[name]
    counted = columns.flagged(cols.MEASURED | cols.UNSCORED)
    sums, missing = ClusterSums(), 0
    for values, gone in _by_task(columns, column, counted):
        missing += gone
        if values:
            sums.add(math.fsum(values), len(values))
    return _estimated(sums, info, "rollouts", count=int(sums.count), missing=missing)


def _by_task(columns: Columns, column: array[float], counted: bytes) -> Iterable[tuple[list[float], int]]:
    for start in range(0, columns.expected, columns.num_repeats):
        places = range(start, start + columns.num_repeats)
        values = [column[at] for at in places if counted[at]]
        there = [value for value in values if not math.isnan(value)]
        yield there, len(values) - len(there)


def _of_groups(
    grade_group: Any, rollouts: GradedRollouts, declared: Mapping[str, MetricInfo]
) -> dict[str, MeasuredMetric]:
    sums: defaultdict[str, ClusterSums] = defaultdict(ClusterSums)
    tasks = 0
    for of_task in rollouts.by_task():
        tasks += 1
        for name, value in checked_metrics(grade_group(of_task)).items():
            of_metric = sums[name]  # a metric that never has a value is shown as such
            if value is not None:
                of_metric.add(value, 1)
    return {
        name: _estimated(
            of_metric,
            declared.get(name, MetricInfo()),
            "tasks",
            count=of_metric.clusters,
            missing=tasks - of_metric.clusters,
        )
        for name, of_metric in sums.items()
    }


def _of_run(
    aggregate: Any, rollouts: GradedRollouts, declared: Mapping[str, MetricInfo]
) -> dict[str, MeasuredMetric]:
    made = aggregate(rollouts)
    if not isinstance(made, Mapping):
        raise RolloutFailedError("verifier_error", f"it returned a {type(made).__name__}, not a mapping")
    estimates = {name: e if isinstance(e, Estimate) else Estimate(e) for name, e in made.items()}
    values = checked_metrics({name: estimate.value for name, estimate in estimates.items()})
    errors = checked_metrics({name: estimate.std_error for name, estimate in estimates.items()})
    return {
        name: _with_error(value, errors[name], declared.get(name, MetricInfo()), len(rollouts))
        for name, value in values.items()
    }


def _with_error(value: float | None, error: float | None, info: MetricInfo, count: int) -> MeasuredMetric:
    low: float | None = None
    high: float | None = None
    if value is not None and error is not None:
        reach = NormalDist().inv_cdf((1 + LEVEL) / 2) * error
        low, high = max(info.low, value - reach), min(info.high, value + reach)
        low, high = _finite(low), _finite(high)
    return MeasuredMetric(value, "run", low, high, error, count, **_of_declaration(info))


def _estimated(
    sums: ClusterSums, info: MetricInfo, over: Over, *, count: int, missing: int
) -> MeasuredMetric:
    interval = clustered_interval(sums, info.low, info.high)
    if interval is None:
        return MeasuredMetric(None, over, missing=missing, **_of_declaration(info))
    return MeasuredMetric(
        interval.mean,
        over,
        _finite(interval.low),
        _finite(interval.high),
        interval.std_error if math.isfinite(interval.high - interval.low) else None,
        count,
        missing,
        **_of_declaration(info),
    )


def _of_declaration(info: MetricInfo) -> dict[str, Any]:
    return {
        "higher_is_better": info.higher_is_better,
        "least": _finite(info.low),
        "most": _finite(info.high),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
