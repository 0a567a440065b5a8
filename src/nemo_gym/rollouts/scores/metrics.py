"""From columns to the aggregate metrics: over all rollouts, per repeat, per task, and what it cost."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_gym.rollouts.scores import columns as cols
from nemo_gym.rollouts.scores.columns import Columns
from nemo_gym.rollouts.scores.pass_at_k import RepeatMetrics, across_repeats
from nemo_gym.rollouts.scores.quantiles import Ordered
from nemo_gym.rollouts.scores.statistics import (
    LEVEL,
    Interval,
    clustered_interval,
    mean,
    sample_std,
    t_quantile,
)
from nemo_gym.types import Row

_NOT_SAMPLED = {"responses_create_params", "response", "agent_ref", "task_source"}
_STATES = {cols.MEASURED: "measured", cols.MASKED: "masked", cols.UNSCORED: "unscored", cols.FAILED: "failed"}


def describe(values: Iterable[float]) -> dict[str, float]:
    """Mean, maximum, minimum, median and standard deviation (n-1), in one sorted copy; empty of nothing."""
    ordered = Ordered(values)
    if not ordered.count:
        return {}
    centre = math.fsum(ordered) / ordered.count
    squares = math.fsum((value - centre) ** 2 for value in ordered)
    return {
        "mean": centre,
        "max": ordered.rank(ordered.count - 1),
        "min": ordered.rank(0),
        "median": ordered.quantile(0.5),
        "std": math.sqrt(squares / (ordered.count - 1)) if ordered.count > 1 else 0.0,
    }


def agent_metrics(columns: Columns, repeats: RepeatMetrics, runs: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics of every field over all rollouts, the interval, and the pass and majority family."""
    found: dict[str, Any] = {}
    reach = t_quantile((1 + LEVEL) / 2, columns.num_repeats - 1) if columns.num_repeats > 1 else math.nan
    for name, column in columns.quality().items():
        shape = describe(columns.measured(column))
        found |= {f"{key}/{name}": value for key, value in shape.items()}
        if columns.num_repeats > 1:
            found |= across_repeats(name, _field_runs(columns, column), reach)
    score = clustered_interval(repeats.clusters)
    if score is not None:
        found |= interval_metrics(score)
    found["num_repeats"] = columns.num_repeats
    found |= repeats.metrics(runs)
    found["per_sample_aggregate"] = {
        name: [100 * total / count if count else None for total, count in totals]
        for name, totals in runs.items()
    }
    if columns.count(cols.MASKED):
        found |= _masked_coverage(columns, repeats)
    return found


def interval_metrics(score: Interval) -> dict[str, float]:
    """The clustered interval of the mean reward under its keys."""
    return {"se/reward": score.std_error, "ci_low_95/reward": score.low, "ci_high_95/reward": score.high}


def key_metrics(metrics: Mapping[str, Any], num_repeats: int) -> dict[str, float]:
    """The few metrics that a reader looks at first, each at the highest ``k`` that has one."""
    wanted = ["mean/reward", "ci_low_95/reward", "ci_high_95/reward", "pass@1/accuracy"]
    for pattern in (
        "pass@1[avg-of-{k}]/accuracy",
        "pass@1[avg-of-{k}]/no_answer",
        "pass@{k}/accuracy",
        "pass@{k}/no_answer",
        "majority@{k}/accuracy",
    ):
        names = (pattern.format(k=k) for k in range(num_repeats, 0, -1))
        wanted += [next((name for name in names if name in metrics), "")]
    return {name: metrics[name] for name in dict.fromkeys(wanted) if name in metrics}


def repeat_level(columns: Columns) -> list[dict[str, Any]]:
    """One entry a repeat with the distribution over tasks of each field; none for a single repeat."""
    if columns.num_repeats < 2:
        return []
    return [_one_repeat(columns, number) for number in range(columns.num_repeats)]


def groups(columns: Columns, samples: Iterator[Row]) -> Iterator[dict[str, Any]]:
    """One entry a task, in order; ``samples`` are the tasks' input rows, as many as there are."""
    quality = columns.quality()
    for task_index in range(columns.num_tasks):
        first = task_index * columns.num_repeats
        places = range(first, first + columns.num_repeats)
        measured = [at for at in places if columns.state[at] & cols.MEASURED]
        entry: dict[str, Any] = {
            "_ng_task_index": task_index,
            "num_rollouts": len(measured),
            "expected_num_rollouts": columns.num_repeats,
            "missing_num_rollouts": columns.num_repeats - len(measured),
            "reward_profile_completion_pct": 100 * len(measured) / columns.num_repeats,
        }
        for name, column in quality.items():
            entry |= _of_task(name, [value for at in measured if not math.isnan(value := column[at])])
        entry["rollout_infos"] = [_rollout_info(columns, at, at - first) for at in places]
        sample = next(samples, None)
        if sample is not None:
            entry["sample"] = {
                key: value
                for key, value in sample.items()
                if key not in _NOT_SAMPLED and not key.startswith("_ng_")
            }
        yield entry


def perf_summary(columns: Columns) -> dict[str, float] | None:
    """Tokens, turns and latency of all recorded rollouts, masked ones too; ``None`` if never observed."""
    found: dict[str, float] = {}
    for name, column in columns.perf.items():
        observed = Ordered(value for value in column if value == value)  # noqa: PLR0124 - NaN
        if observed.count:
            found[f"coverage/{name}"] = observed.count / max(1, columns.rows)
            total = math.fsum(observed)
            found |= {f"mean/{name}": total / observed.count, f"median/{name}": observed.quantile(0.5)}
            found |= _shape(name, observed, total)
    turns = found.get("total/num_turns")
    if turns:
        for name in ("prompt_tokens", "completion_tokens"):
            if f"total/{name}" in found:
                found[f"per_turn/{name}"] = found[f"total/{name}"] / turns
    return found or None


def _shape(name: str, observed: Ordered, total: float) -> dict[str, float]:
    if name == "total_latency_ms":
        return {f"p{share}/{name}": observed.quantile(share / 100) for share in (50, 90, 99)}
    if name.endswith("tokens"):
        return {f"total/{name}": total}
    centre = total / observed.count
    spread = math.fsum((value - centre) ** 2 for value in observed)
    return {
        f"total/{name}": total,
        f"std/{name}": math.sqrt(spread / max(1, observed.count - 1)),
        f"min/{name}": observed.rank(0),
        f"p90/{name}": observed.quantile(0.9),
        f"max/{name}": observed.rank(observed.count - 1),
    }


def _field_runs(columns: Columns, column: array[float]) -> list[tuple[float, int]]:
    runs = []
    for number in range(columns.num_repeats):
        values = _of_repeat(columns, column, number)
        runs.append((math.fsum(values), len(values)))
    return runs


def _of_repeat(columns: Columns, column: array[float], number: int) -> array[float]:
    states = columns.state[number :: columns.num_repeats]
    values = column[number :: columns.num_repeats]
    return array(
        "d",
        (v for v, s in zip(values, states, strict=True) if s & cols.MEASURED and v == v),  # noqa: PLR0124 - NaN
    )


def _one_repeat(columns: Columns, number: int) -> dict[str, Any]:
    distributions = {}
    for name, column in columns.quality().items():
        values = Ordered(_of_repeat(columns, column, number))
        if values.count:
            distributions[name] = _distribution(values)
    rewards = distributions.get("reward", {"sample_count": 0})
    return {
        "_ng_rollout_index": number,
        "sample_count": rewards["sample_count"],
        "missing_count": columns.num_tasks - int(rewards["sample_count"]),
        "metrics": distributions,
    }


def _distribution(values: Ordered) -> dict[str, float]:
    count = values.count
    centre = math.fsum(values) / count
    found: dict[str, float] = {"mean": centre, "median": values.quantile(0.5), "sample_count": count}
    found |= {"min": values.rank(0), "max": values.rank(count - 1)}
    found |= {"p25": values.quantile(0.25), "p75": values.quantile(0.75)}
    if count > 1:
        std = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (count - 1))
        error = std / math.sqrt(count)
        reach = t_quantile((1 + LEVEL) / 2, count - 1) * error
        found |= {"std": std, "sem": error, "ci_low_95": centre - reach, "ci_high_95": centre + reach}
    return found


def _of_task(name: str, values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {f"mean/{name}": values[0]} if values else {}
    ordered = sorted(values)
    half = len(ordered) // 2
    return {
        f"mean/{name}": mean(values),
        f"max/{name}": ordered[-1],
        f"min/{name}": ordered[0],
        f"median/{name}": ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2,
        f"std/{name}": sample_std(values),
    }


def _rollout_info(columns: Columns, at: int, number: int) -> dict[str, Any]:
    state = columns.state[at]
    name = next((name for flag, name in _STATES.items() if state & flag), "missing")
    info: dict[str, Any] = {"_ng_rollout_index": number, "state": name}
    if state & cols.MEASURED:
        info["reward"] = columns.reward[at]
    if state & cols.TRUNCATED:
        info["truncated"] = True
    if state & cols.NO_ANSWER:
        info["no_answer"] = True
    if state & cols.NOT_GRADED:
        info["not_graded"] = True
    return info


def _masked_coverage(columns: Columns, repeats: RepeatMetrics) -> dict[str, int]:
    step = columns.num_repeats
    wholly = sum(
        all(state & cols.MASKED for state in columns.state[start : start + step])
        for start in range(0, columns.expected, step)
    )
    return {
        "coverage/measured_rollouts": columns.count(cols.MEASURED),
        "coverage/masked_rollouts": columns.count(cols.MASKED),
        "coverage/measured_tasks": repeats.clusters.clusters,
        "coverage/fully_masked_tasks": wholly,
    }
