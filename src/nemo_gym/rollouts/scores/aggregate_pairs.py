"""Metrics that a verifier makes of many rollouts, of two runs: their difference, paired where it can be.

The verifier is built again from what the manifest says about the grading, and makes the metrics of both runs
without a twentieth of the tasks, twenty times (delete-group jackknife). The same tasks are left out on both
sides, so what makes a task hard falls out of the difference. Where it cannot be built (lm-eval's metrics, a
Python file of one's own, a file that is gone), the two runs' own standard errors are taken as independent,
which gives a wider interval as a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Final, Literal, cast

from nemo_gym.errors import GymError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.manifest import OutputManifest
from nemo_gym.rollouts.output.stored_answers import GradedRollouts
from nemo_gym.rollouts.scores import columns as cols
from nemo_gym.rollouts.scores.columns import Columns
from nemo_gym.rollouts.scores.measured_metric import MeasuredMetric
from nemo_gym.rollouts.scores.statistics import LEVEL, mean, t_quantile
from nemo_gym.types import Estimate, GradedRollout, Policy, Verifier
from nemo_gym.verifiers.registry import load_verifier

BLOCKS: Final = 20
"""Groups of tasks that are left out in turn."""
MOST_ROLLOUTS: Final = 50_000
"""Of one run, which are held in memory meanwhile; larger runs are taken as independent."""

Method = Literal["jackknife", "independent", "none"]


@dataclass(frozen=True, slots=True)
class PairedAggregate:
    """The difference B - A in one metric of whole runs."""

    value_a: float
    value_b: float
    difference: float
    low: float | None
    high: float | None
    """``None`` with the method ``none``: nothing says how sure the difference is."""
    std_error: float | None
    method: Method
    higher_is_better: bool | None = None

    @property
    def sentence(self) -> str:
        """What can be said."""
        if self.low is None or self.high is None:
            return "how sure this is, is not known"
        if self.low <= 0 <= self.high:
            return "no difference is shown"
        ahead = "B" if self.low > 0 else "A"
        if self.higher_is_better is None:
            return f"{ahead} is higher"
        return f"{ahead if self.higher_is_better else 'A' if ahead == 'B' else 'B'} is better"

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**asdict(self), "conclusion": self.sentence}


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One side of a comparison."""

    paths: RolloutPaths
    manifest: OutputManifest
    columns: Columns
    metrics: Mapping[str, MeasuredMetric]
    """Those of its summary."""


def paired_aggregates(a: ComparedRun, b: ComparedRun) -> dict[str, PairedAggregate]:
    """The metrics over tasks or whole runs that both summaries have a value of."""
    shared = [
        name
        for name, metric in a.metrics.items()
        if metric.over != "rollouts"
        and metric.value is not None
        and name in b.metrics
        and b.metrics[name].value is not None
    ]
    if not shared:
        return {}
    replicates = _replicates(a, b)
    return {name: _paired(a.metrics[name], b.metrics[name], replicates.get(name, [])) for name in shared}


def _paired(a: MeasuredMetric, b: MeasuredMetric, replicates: Sequence[float]) -> PairedAggregate:
    value_a, value_b = cast("float", a.value), cast("float", b.value)
    error: float | None = None
    reach = math.nan
    method: Method = "none"
    if len(replicates) > 1:
        count, centre = len(replicates), mean(replicates)
        error = math.sqrt((count - 1) / count * math.fsum((each - centre) ** 2 for each in replicates))
        reach, method = t_quantile((1 + LEVEL) / 2, count - 1) * error, "jackknife"
    elif a.std_error is not None and b.std_error is not None:
        error = math.hypot(a.std_error, b.std_error)
        reach, method = NormalDist().inv_cdf((1 + LEVEL) / 2) * error, "independent"
    difference = value_b - value_a
    known = error is not None
    return PairedAggregate(
        value_a,
        value_b,
        difference,
        max(-a.width, difference - reach) if known else None,
        min(a.width, difference + reach) if known else None,
        error,
        method,
        a.higher_is_better,
    )


def _replicates(a: ComparedRun, b: ComparedRun) -> dict[str, list[float]]:
    """By metric its difference without each group of tasks; only metrics that have a value each time."""
    verifier = _verifier(a.manifest)
    if verifier is None or max(a.columns.rows, b.columns.rows) > MOST_ROLLOUTS:
        return {}
    left, right = _by_task(a, verifier), _by_task(b, verifier)
    tasks = sorted(left.keys() & right.keys())
    blocks = min(BLOCKS, len(tasks))
    found: list[dict[str, float]] = []
    for block in range(blocks):
        kept = [task for at, task in enumerate(tasks) if at % blocks != block]
        try:
            of_a, of_b = (_made(verifier, [side[task] for task in kept]) for side in (left, right))
        except Exception:  # noqa: BLE001 - code of others, which has made the summary's value before
            return {}
        found.append({name: of_b[name] - of_a[name] for name in of_a.keys() & of_b.keys()})
    names = set(found[0]).intersection(*found[1:]) if found else set()
    return {name: [each[name] for each in found] for name in names}


def _made(verifier: Verifier, tasks: Sequence[Sequence[GradedRollout]]) -> dict[str, float]:
    """The values that the verifier makes of some tasks, as the summary adds them up."""
    found: dict[str, float] = {}
    aggregate = getattr(verifier, "aggregate", None)
    if callable(aggregate):
        made: Mapping[str, Any] = aggregate([rollout for task in tasks for rollout in task])
        for name, value in made.items():
            number = value.value if isinstance(value, Estimate) else value
            if number is not None and math.isfinite(number):
                found[name] = float(number)
    grade_group = getattr(verifier, "grade_group", None)
    if callable(grade_group):
        found |= _group_means(grade_group, tasks)
    return found


def _group_means(
    grade_group: Callable[[Sequence[GradedRollout]], Mapping[str, float | None]],
    tasks: Sequence[Sequence[GradedRollout]],
) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for task in tasks:
        for name, value in grade_group(task).items():
            if value is not None:
                values.setdefault(name, []).append(float(value))
    return {name: mean(each) for name, each in values.items()}


def _by_task(run: ComparedRun, verifier: Verifier) -> dict[int, list[GradedRollout]]:
    unscored = cols.UNSCORED if getattr(verifier, "aggregates_unscored", False) else 0
    wanted = run.columns.flagged(cols.MEASURED | unscored)
    rollouts = GradedRollouts(run.paths, run.columns.num_repeats, wanted)
    return {of_task[0].task.task_index: of_task for of_task in rollouts.by_task()}


def _verifier(manifest: OutputManifest) -> Verifier | None:
    """The verifier of a run as its manifest describes it; ``None`` where that is not enough."""
    spec = (manifest.scoring.get("benchmark") or {}).get("verifier")
    if not isinstance(spec, Mapping) or spec.get("type") in ("lm_eval", "python"):
        return None
    judges = manifest.scoring.get("judge_models") or {}
    silent = {name: cast("Policy", _SilentJudge()) for name in judges}
    try:
        return load_verifier(spec, silent)
    except GymError:
        return None


class _SilentJudge:
    """Stands for a judge model: nothing is graded here."""
