"""Metrics over the repeats of each task: pass@k, majority@k, the average of k runs. Values are percent.

pass@k is the unbiased estimate over all rollouts of a task when rewards are 0 or 1, else the best of the
first k; majority@k votes among the first k. ``k`` runs over all numbers of repeats up to 16, then over powers
of two and the full number. A task with fewer than ``k`` measured rollouts has no say at ``k``; how many have
one is shown where it is not all of them.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nemo_gym.rollouts.scores.columns import MEASURED, NO_ANSWER, Columns
from nemo_gym.rollouts.scores.statistics import ClusterSums, majority_at_k, mean, pass_at_k, sample_std

ACCURACY = "accuracy"
"""The score that is the reward; ``no_answer`` is 1 where no answer was understood."""


@dataclass(slots=True)
class RepeatMetrics:
    """Sums over tasks, by ``k``."""

    ks: tuple[int, ...]
    clusters: ClusterSums = field(default_factory=ClusterSums)
    tasks: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """How many tasks have ``k`` measured rollouts."""
    passed: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    majority: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))

    def metrics(self, runs: Mapping[str, Sequence[tuple[float, int]]]) -> dict[str, float]:
        """All of the family; ``runs`` has, by score, total and count of each repeat over the tasks."""
        found: dict[str, float] = {}
        for k in self.ks:
            for score, totals in runs.items():
                found |= average_of_runs(score, totals[:k])
            count = self.tasks.get(k, 0)
            if not count:
                continue
            for score in runs:
                found[f"pass@{k}/{score}"] = 100 * self.passed[score, k] / count
                if (score, k) in self.majority:
                    found[f"majority@{k}/{score}"] = 100 * self.majority[score, k] / count
            if count < self.clusters.clusters:
                found[f"num_tasks/@{k}"] = count
        return found


def cutoffs(num_repeats: int) -> tuple[int, ...]:
    """The values of ``k``."""
    if num_repeats <= 16:
        return tuple(range(1, num_repeats + 1))
    powers = (2**power for power in range(num_repeats.bit_length()))
    return tuple(sorted({*powers, num_repeats}))


def average_of_runs(score: str, runs: Sequence[tuple[float, int]]) -> dict[str, float]:
    """Mean over all rollouts of the first k repeats, and how much the repeats' own means differ."""
    count = sum(number for _, number in runs)
    if not count:
        return {}
    name = f"pass@1[avg-of-{len(runs)}]/{score}"
    found = {name: 100 * math.fsum(total for total, _ in runs) / count}
    means = [100 * total / number for total, number in runs if number]
    if len(means) > 1:
        found[f"{name}/std_dev_across_runs"] = sample_std(means)
        found[f"{name}/std_err_across_runs"] = sample_std(means) / math.sqrt(len(means))
    return found


def repeat_metrics(columns: Columns) -> tuple[RepeatMetrics, dict[str, list[tuple[float, int]]]]:
    """Go through the tasks once; also give, by score, total and count of each repeat."""
    result = RepeatMetrics(cutoffs(columns.num_repeats))
    scores = {ACCURACY: columns.reward}
    if columns.answers_seen:
        flags = columns.flagged(NO_ANSWER)
        scores["no_answer"] = array("d", (1.0 if flag else 0.0 for flag in flags))
    binary = all(value in {0.0, 1.0} for value in columns.measured(columns.reward))
    measured = columns.flagged(MEASURED)
    for start in range(0, columns.expected, columns.num_repeats):
        of_task = measured[start : start + columns.num_repeats]
        there = [start + offset for offset, flag in enumerate(of_task) if flag]
        if there:
            result.clusters.add(sum(columns.reward[at] for at in there), len(there))
            _take_task(result, columns, scores, there, binary=binary)
    return result, {name: _runs(columns, column, measured) for name, column in scores.items()}


def _take_task(
    result: RepeatMetrics,
    columns: Columns,
    scores: Mapping[str, array[float]],
    there: list[int],
    *,
    binary: bool,
) -> None:
    answers = [columns.answers[at] for at in there] if columns.answers_seen else []
    for k in result.ks:
        if k <= len(there):
            result.tasks[k] += 1
    for name, column in scores.items():
        values = [column[at] for at in there]
        passed = int(sum(values)) if binary or name != ACCURACY else 0
        for k in result.ks:
            if k > len(values):
                break
            if binary or name != ACCURACY:
                result.passed[name, k] += pass_at_k(len(values), passed, k)
            else:
                result.passed[name, k] += max(values[:k])
            if answers and name == ACCURACY:
                result.majority[name, k] += majority_at_k(answers[:k], values[:k])
            elif answers:  # no answer wins only where nobody gave one
                result.majority[name, k] += float(not any(answers[:k]))


def _runs(columns: Columns, column: array[float], measured: bytes) -> list[tuple[float, int]]:
    runs = []
    for number in range(columns.num_repeats):
        flags = measured[number :: columns.num_repeats]
        values = column[number :: columns.num_repeats]
        runs.append(
            (math.fsum(v for v, f in zip(values, flags, strict=True) if f), len(flags) - flags.count(0))
        )
    return runs


def across_repeats(name: str, runs: Sequence[tuple[float, int]], reach: float) -> dict[str, float]:
    """How the repeats' means of one field differ; ``reach`` is the t quantile for their number less one."""
    means = sorted(total / count for total, count in runs if count)
    if len(means) < 2:
        return {}
    centre, std = mean(means), sample_std(means)
    error = std / math.sqrt(len(means))
    half = len(means) // 2
    middle = means[half] if len(means) % 2 else (means[half - 1] + means[half]) / 2
    values = {
        "mean": centre,
        "median": middle,
        "std": std,
        "min": means[0],
        "max": means[-1],
        "se": error,
        "ci_low_95": centre - reach * error,
        "ci_high_95": centre + reach * error,
    }
    return {f"{key}_across_repeats/{name}": value for key, value in values.items()}
