"""Two runs of the same tasks side by side: paired differences, task by task.

Pairing takes the difficulty of the tasks out of the comparison, so its interval is narrower than what the two
runs' own intervals suggest. Runs whose tasks or grading differ are refused; whatever else differs (model,
sampling, agent, repeats) is being compared, and is shown.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from nemo_gym.errors import DataError, GymError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.manifest import OutputManifest, load_manifest
from nemo_gym.rollouts.output.outputs_at import outputs_at
from nemo_gym.rollouts.run_config.identity import differences
from nemo_gym.rollouts.scores import columns as cols
from nemo_gym.rollouts.scores.aggregate_pairs import ComparedRun, PairedAggregate, paired_aggregates
from nemo_gym.rollouts.scores.columns import Columns
from nemo_gym.rollouts.scores.group_scores import members, task_rows
from nemo_gym.rollouts.scores.measured_metric import MeasuredMetric
from nemo_gym.rollouts.scores.statistics import LEVEL, mean, sample_std, t_quantile, wilson
from nemo_gym.rollouts.scores.summary import load_summary
from nemo_runs.counts import counted

TASK_KEYS = (
    "benchmark.choices",
    "benchmark.fields",
    "benchmark.name",
    "benchmark.parse",
    "benchmark.prompt",
    "dataset_sha256",
    "examples_sha256",
    "limit",
    "split",
)
"""What of a run's generation identity makes its tasks; the rest is how they were answered."""


class UnlikeRunsError(GymError):
    """Two runs cannot be compared, since their tasks or their grading differ."""


@dataclass(frozen=True, slots=True)
class Paired:
    """Mean of the per-task differences B - A with its interval."""

    tasks: int
    """Tasks with at least one measured rollout on both sides."""
    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    std_error: float
    method: Literal["paired_t", "wilson"]
    better: int
    """Tasks on which B's mean is the better one; the higher one where neither direction is better."""
    worse: int
    same: int
    higher_is_better: bool | None = True

    @property
    def sentence(self) -> str:
        """What can be said."""
        if self.low <= 0 <= self.high:
            return "no difference is shown"
        ahead = "B" if self.low > 0 else "A"
        if self.higher_is_better is None:
            return f"{ahead} is higher"
        if self.higher_is_better:
            return f"{ahead} is better"
        return f"{'A' if ahead == 'B' else 'B'} is better"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One benchmark of two runs."""

    benchmark: str
    a: Path
    b: Path
    paired: Paired
    unpaired_a: int
    """Tasks that only A has measured."""
    unpaired_b: int
    differs: list[str]
    """Settings that differ, as ``policy_model_name: "x" → "y"``."""
    metrics: Mapping[str, Paired] = field(default_factory=dict)
    """The verifier's metrics that both runs have, over the tasks that have a value on both sides."""
    aggregates: Mapping[str, PairedAggregate] = field(default_factory=dict)
    """The metrics of tasks and of whole runs that both runs have."""
    groups: Mapping[str, Mapping[str, Paired]] = field(default_factory=dict)
    """Field → value → the rewards of the tasks whose rows have it, for the ``group_by`` of either run."""

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "benchmark": self.benchmark,
            "a": str(self.a),
            "b": str(self.b),
            **_in_json(self.paired),
            "level": LEVEL,
            "unpaired_a": self.unpaired_a,
            "unpaired_b": self.unpaired_b,
            "differs": self.differs,
            "metrics": {name: _in_json(paired) for name, paired in self.metrics.items()},
            "aggregates": {name: paired.to_json() for name, paired in self.aggregates.items()},
            "groups": {
                by: {group: _in_json(paired) for group, paired in groups.items()}
                for by, groups in self.groups.items()
            },
        }


def _in_json(paired: Paired) -> dict[str, Any]:
    values = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(paired).items()
    }
    return {**values, "conclusion": paired.sentence}


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All benchmarks that two runs share."""

    shared: list[Comparison]
    only_a: list[str]
    only_b: list[str]

    def to_json(self) -> dict[str, Any]:
        """One document for ``--json``."""
        shared = [comparison.to_json() for comparison in self.shared]
        return {"schema_version": 1, "benchmarks": shared, "only_a": self.only_a, "only_b": self.only_b}


def compare(
    a: Path | Mapping[str, RolloutPaths],
    b: Path | Mapping[str, RolloutPaths],
    *,
    names: tuple[str, str] | None = None,
) -> Comparisons:
    """Compare two runs: each a path (see `outputs_at`), or outputs by benchmark. ``names`` is for messages.

    Benchmarks are paired by name; a single one on each side is paired whatever its folder is called. Raises
    `UnlikeRunsError` naming every key that differs, `DataError` where nothing can be read.
    """
    left, right = (outputs_at(run) if isinstance(run, Path) else run for run in (a, b))
    if len(left) == len(right) == 1:
        pairs = [(next(iter(left.values())), next(iter(right.values())))]
        return Comparisons([compare_outputs(*pairs[0])], [], [])
    shared = [name for name in left if name in right]
    if not shared:
        first, second = names or (a, b)
        raise DataError(
            f"{first} and {second} share no benchmark: the first has {', '.join(left)}, "
            f"the second {', '.join(right)}."
        )
    return Comparisons(
        [compare_outputs(left[name], right[name], name) for name in shared],
        [name for name in left if name not in right],
        [name for name in right if name not in left],
    )


def compare_outputs(a: RolloutPaths, b: RolloutPaths, name: str | None = None) -> Comparison:
    """Compare two outputs; see `compare`."""
    left, right = _manifest(a), _manifest(b)
    _refuse_unlike(a, b, left, right)
    count = left.num_tasks
    columns_a, columns_b = _columns(a, left), _columns(b, right)
    means = list(
        zip(_task_means(columns_a), _task_means(columns_b), strict=True),
    )
    both = _on_both_sides(means)
    if not both:
        raise DataError(
            f"{a.output} and {b.output}: none of the {counted(count, 'task')} is measured on both sides."
        )
    return Comparison(
        name or str(left.generation["benchmark"]["name"]),
        a.output,
        b.output,
        pair(both),
        sum(math.isnan(y) and not math.isnan(x) for x, y in means),
        sum(math.isnan(x) and not math.isnan(y) for x, y in means),
        differences(left.generation, right.generation),
        _metrics(a, b, columns_a, columns_b),
        paired_aggregates(_compared(a, left, columns_a), _compared(b, right, columns_b)),
        _groups(a, b, left.num_repeats, means),
    )


def _compared(paths: RolloutPaths, known: OutputManifest, columns: Columns) -> ComparedRun:
    summary = load_summary(paths)
    return ComparedRun(paths, known, columns, {} if summary is None else summary.metrics)


@dataclass(frozen=True, slots=True)
class MeasuredTasks:
    """The mean reward of each task of an output; NaN where none of its rollouts is measured."""

    paths: RolloutPaths
    manifest: OutputManifest
    means: array[float]


def measured_tasks(paths: RolloutPaths) -> MeasuredTasks:
    """Read an output for any number of comparisons. Raises `DataError` without a manifest."""
    known = _manifest(paths)
    return MeasuredTasks(paths, known, array("d", _task_means(_columns(paths, known))))


def paired_tasks(a: MeasuredTasks, b: MeasuredTasks) -> Paired:
    """The difference in reward between two outputs; raises as `compare_outputs` does."""
    _refuse_unlike(a.paths, b.paths, a.manifest, b.manifest)
    both = _on_both_sides(zip(a.means, b.means, strict=True))
    if not both:
        raise DataError("no task is measured on both sides.")
    return pair(both)


def pair(
    means: list[tuple[float, float]], width: float = 1.0, *, higher_is_better: bool | None = True
) -> Paired:
    """The mean of the differences over tasks, each task counting once.

    ``d ± t(n - 1) · s / sqrt(n)`` with the sample deviation ``s`` of the differences. When all differences
    are equal that would claim certainty: then the reach is the Wilson bound for a share of 0 in ``n`` tasks,
    which is how many tasks could still behave otherwise, times ``width``, the greatest difference that two
    values can have. Cut to that.
    """
    deltas = [y - x for x, y in means]
    count, centre, spread = len(deltas), mean(deltas), sample_std(deltas)
    error = spread / math.sqrt(count)
    sign = -1 if higher_is_better is False else 1
    method: Literal["paired_t", "wilson"] = "paired_t" if spread > 1e-12 else "wilson"
    reach = (
        t_quantile((1 + LEVEL) / 2, count - 1) * error if spread > 1e-12 else width * wilson(0.0, count)[1]
    )
    return Paired(
        tasks=count,
        mean_a=mean([x for x, _ in means]),
        mean_b=mean([y for _, y in means]),
        difference=centre,
        low=max(-width, centre - reach),
        high=min(width, centre + reach),
        std_error=error if spread > 1e-12 else 0.0,
        method=method,
        better=sum(sign * delta > 0 for delta in deltas),
        worse=sum(sign * delta < 0 for delta in deltas),
        same=sum(delta == 0 for delta in deltas),
        higher_is_better=higher_is_better,
    )


def _manifest(paths: RolloutPaths) -> OutputManifest:
    found = load_manifest(paths.manifest)
    if found is None:
        raise DataError(f"{paths.manifest}: not there, so it is unknown which tasks the rows belong to.")
    return found


def _refuse_unlike(a: RolloutPaths, b: RolloutPaths, left: OutputManifest, right: OutputManifest) -> None:
    tasks = [*differences(_tasks(left.generation), _tasks(right.generation))]
    changes = [*tasks, *differences(left.scoring, right.scoring)]
    if left.num_tasks != right.num_tasks and not changes:
        changes.append(f"num_tasks: {left.num_tasks} → {right.num_tasks}")
    if changes:
        raise UnlikeRunsError(
            f"{a.output} and {b.output} are not alike in tasks or grading: {_shortened('; '.join(changes))}."
            + _remedy(grading_alone=not tasks and left.scoring != right.scoring)
        )


def _remedy(*, grading_alone: bool) -> str:
    if grading_alone:
        return " Grade one of them again with `gym eval reverify`."
    return " Only runs on the same questions can be compared."


def _shortened(changes: str) -> str:
    """Digests are only distinguished here, for which their first digits do."""
    return re.sub(r'"([0-9a-f]{12})[0-9a-f]{52}"', r"\1…", changes)


def _tasks(generation: Mapping[str, Any]) -> dict[str, Any]:
    picked: dict[str, Any] = {}
    for key in TASK_KEYS:
        value: Any = generation
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            picked[key] = value
    return picked


def _groups(
    a: RolloutPaths, b: RolloutPaths, num_repeats: int, means: list[tuple[float, float]]
) -> dict[str, dict[str, Paired]]:
    """Differences within groups of tasks, by the fields that either run's summary is grouped by."""
    summaries = [summary for paths in (a, b) if (summary := load_summary(paths)) is not None]
    fields = list(dict.fromkeys(group.by for summary in summaries for group in summary.groups))
    if not fields:
        return {}
    rows = [{name: row.get(name) for name in fields} for row in task_rows(a, num_repeats)]
    found: dict[str, dict[str, Paired]] = {}
    for by in fields:
        for group, tasks in members(rows, by).items():
            both = _on_both_sides(means[task] for task in tasks if task < len(means))
            if both:
                found.setdefault(by, {})[group] = pair(both)
    return found


def _on_both_sides(means: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in means if not (math.isnan(x) or math.isnan(y))]


def _metrics(a: RolloutPaths, b: RolloutPaths, columns_a: Columns, columns_b: Columns) -> dict[str, Paired]:
    """The metrics of single answers that both runs have, their directions from the runs' summaries."""
    found: dict[str, Paired] = {}
    loaded = [load_summary(paths) for paths in (a, b)]
    summaries = [summary.metrics if summary is not None else {} for summary in loaded]
    for name in columns_a.metrics:
        if name in columns_b.metrics:
            means = zip(_task_means(columns_a, name), _task_means(columns_b, name), strict=True)
            if both := _on_both_sides(means):
                summed = summaries[0].get(name) or summaries[1].get(name) or MeasuredMetric(None, "rollouts")
                found[name] = pair(both, summed.width, higher_is_better=summed.higher_is_better)
    return found


def _columns(paths: RolloutPaths, known: OutputManifest) -> Columns:
    return cols.read_columns(paths, num_tasks=known.num_tasks, num_repeats=known.num_repeats)


def _task_means(columns: Columns, metric: str | None = None) -> Iterator[float]:
    """The mean of each task over its measured rollouts that have a value; NaN where none has."""
    column = columns.reward if metric is None else columns.metrics[metric]
    flags = columns.flagged(cols.MEASURED if metric is None else cols.MEASURED | cols.UNSCORED)
    for start in range(0, columns.expected, columns.num_repeats):
        places = range(start, start + columns.num_repeats)
        yield mean([column[at] for at in places if flags[at] and not math.isnan(column[at])])
