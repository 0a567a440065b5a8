"""From result rows to metrics and coverage, in one pass and bounded memory (some 50 bytes a rollout)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.agents.tool_calls import TOOL_ERRORS, TOOL_RESULTS_CUT
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.policy.reasoning import MORE_TOKENS
from nemo_gym.rollouts.run_config.judge_schema import TokenPrices
from nemo_gym.rollouts.scores import columns as cols
from nemo_gym.rollouts.scores import metrics, verifier_metrics
from nemo_gym.rollouts.scores.columns import Columns
from nemo_gym.rollouts.scores.group_scores import GroupScore, score_groups, task_rows
from nemo_gym.rollouts.scores.pass_at_k import RepeatMetrics, repeat_metrics
from nemo_gym.rollouts.scores.statistics import clustered_interval
from nemo_gym.rollouts.scores.summary import Coverage, Summary
from nemo_gym.rollouts.scores.until_scores import until_scores
from nemo_gym.types import Verifier
from nemo_runs.counts import counted
from nemo_runs.durable import disk, files


def aggregate(
    paths: RolloutPaths,
    *,
    num_tasks: int,
    num_repeats: int,
    run: Mapping[str, Any] | None = None,
    verifier: Verifier | None = None,
    group_by: Sequence[str] = (),
    prices: Mapping[str, TokenPrices] | None = None,
) -> Summary:
    """Measure everything in ``paths.output`` and write the aggregate metrics and the coverage beside it.

    ``run`` is what the summary says about the run: ``benchmark``, ``agent``, ``model``, ``run_id``,
    ``resumed``, ``new`` (counts of rollouts), ``seconds``; all optional. ``verifier`` declares what its
    metrics mean, and may make further ones of many rollouts. ``group_by`` names fields of the rows whose
    values get scores of their own; ``prices`` are those of judge models by name. Rows that are damaged,
    doubled or not expected are counted in the coverage and left out. Both files are replaced as a whole.
    """
    run = dict(run or {})
    columns = cols.read_columns(paths, num_tasks=num_tasks, num_repeats=num_repeats)
    repeats, runs = repeat_metrics(columns)
    of_agent = metrics.agent_metrics(columns, repeats, runs)
    of_perf = metrics.perf_summary(columns)
    of_verifier = verifier_metrics.measure(columns, paths, verifier)
    measured = {name: metric.to_json() for name, metric in of_verifier.found.items()}
    key = metrics.key_metrics(of_agent, num_repeats)
    entry = _head(columns, run) | {"agent_metrics": of_agent, "key_metrics": key}
    entry |= {"repeat_level_metrics": metrics.repeat_level(columns)}
    if measured:
        entry["verifier_metrics"] = measured
    if of_perf is not None:
        entry["perf_summary"] = of_perf
    grouped, about_groups = _groups(columns, paths, group_by)
    if grouped:
        entry["group_scores"] = [score.to_json() for score in grouped]
    _write_metrics(paths.aggregate_metrics, entry, metrics.groups(columns, task_rows(paths, num_repeats)))
    until = until_scores(paths, columns)
    summary = Summary(
        coverage=_coverage(columns, repeats, decided=until is not None and until.decided),
        score=(None if until is None else until.interval) or clustered_interval(repeats.clusters),
        key_metrics=key,
        tokens=_tokens(columns, of_perf or {}),
        latency_ms=_latency(of_perf or {}),
        run={"agent": entry["agent_ref"]["name"], **run},
        notes=(*_notes(columns), *of_verifier.notes, *about_groups),
        metrics=of_verifier.found,
        groups=tuple(grouped),
        judges=_judges(columns, prices or {}),
        until=None if until is None else until.to_json(),
        tools=_tools(columns, of_perf or {}),
    )
    text = json.dumps(summary.to_json(), indent=2, ensure_ascii=False)
    files.replace_file(paths.coverage, text.encode("utf-8", "replace") + b"\n")
    return summary


def _head(columns: Columns, run: Mapping[str, Any]) -> dict[str, Any]:
    agent = columns.head.get("agent_ref") or {"name": run.get("agent") or "single_turn"}
    source = columns.head.get("task_source") or run.get("benchmark")
    return {"agent_ref": agent, "_ng_environment_server": source, "task_source": source}


def _groups(
    columns: Columns, paths: RolloutPaths, group_by: Sequence[str]
) -> tuple[list[GroupScore], list[str]]:
    """Scores by the values of fields; of each row only those fields are kept in memory."""
    if not group_by:
        return [], []
    rows = [{name: row.get(name) for name in group_by} for row in task_rows(paths, columns.num_repeats)]
    return score_groups(columns, rows, group_by)


def _write_metrics(path: Path, entry: Mapping[str, Any], groups: Iterator[Mapping[str, Any]]) -> None:
    """A JSON list with one entry, its long list of tasks written one line a task."""
    head = orjson.dumps([entry], option=orjson.OPT_INDENT_2)
    end = head.rindex(b"\n  }\n]")
    with disk.temporary_beside(path) as temporary:
        with disk.full_disk_named(path), temporary.open("xb", buffering=1 << 20) as file:
            file.write(head[:end] + b',\n    "group_level_metrics": [')
            for number, group in enumerate(groups):
                file.write((b",\n      " if number else b"\n      ") + orjson.dumps(group))
            file.write(b"\n    ]\n  }\n]\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    disk.sync_folder(path.parent)


def _coverage(columns: Columns, repeats: RepeatMetrics, *, decided: bool) -> Coverage:
    measured = columns.flagged(cols.MEASURED)
    missing = columns.expected - sum(
        columns.count(flag) for flag in (cols.MEASURED, cols.MASKED, cols.UNSCORED, cols.FAILED)
    )
    return Coverage(
        expected=columns.expected,
        measured=columns.expected - measured.count(0),
        masked=columns.count(cols.MASKED),
        unscored=columns.count(cols.UNSCORED),
        failed=columns.count(cols.FAILED),
        missing=0 if decided else missing,
        not_needed=missing if decided else 0,
        truncated=_both(columns, cols.MEASURED | cols.TRUNCATED),
        no_answer=_both(columns, cols.MEASURED | cols.NO_ANSWER),
        no_answer_truncated=_both(columns, cols.MEASURED | cols.TRUNCATED | cols.NO_ANSWER),
        tasks=columns.num_tasks,
        measured_tasks=repeats.clusters.clusters,
        cut_in_thought=columns.cut_in_thought,
        not_graded=columns.count(cols.NOT_GRADED),
        ends=dict(sorted(columns.ends.items(), key=lambda end: (-end[1], end[0]))),
        attempts=columns.rows + columns.failure_rows,
        failure_classes=dict(columns.failure_classes.most_common()),
        damaged=columns.damaged,
        duplicates=columns.duplicates,
        unexpected=columns.unexpected,
    )


def _both(columns: Columns, flags: int) -> int:
    table = bytes(value & flags == flags for value in range(256))
    return columns.state.translate(table).count(1)


def _tokens(columns: Columns, perf: Mapping[str, float]) -> dict[str, float]:
    names = {"input": "total/prompt_tokens", "output": "total/completion_tokens"}
    found = {short: perf[name] for short, name in names.items() if name in perf}
    if "mean/completion_tokens" in perf:
        found["output_mean"] = perf["mean/completion_tokens"]
    if columns.thoughts["answers"]:
        found["reasoning_answers"] = columns.thoughts["answers"]
        found |= {name: columns.thoughts[name] for name in cols.THOUGHTS}
    return found


def _tools(columns: Columns, perf: Mapping[str, float]) -> dict[str, float]:
    """Calls of tools in measured rollouts, and what went wrong with them; empty where no tool was called."""
    calls = perf.get("total/num_tool_calls", 0)
    if not calls:
        return {}
    found = {"turns": perf.get("total/num_turns", 0), "calls": calls}
    for name, column in (("errors", TOOL_ERRORS), ("cut", TOOL_RESULTS_CUT)):
        if column in columns.extra:
            found[name] = sum(columns.measured(columns.extra[column]))
    return found


def _judges(columns: Columns, prices: Mapping[str, TokenPrices]) -> dict[str, dict[str, float]]:
    found = {}
    for name, use in columns.judges.items():
        found[name] = dict(use)
        if name in prices:
            price = prices[name]
            spent = use["prompt_tokens"] * price.input + use["completion_tokens"] * price.output
            found[name]["cost"] = spent / 1_000_000
    return found


def _latency(perf: Mapping[str, float]) -> dict[str, float]:
    return {
        name: perf[f"{name}/total_latency_ms"]
        for name in ("p50", "p90", "p99", "mean")
        if f"{name}/total_latency_ms" in perf
    }


def _notes(columns: Columns) -> tuple[str, ...]:
    left_out = {
        ("unreadable line was", "unreadable lines were"): columns.damaged,
        ("second row of a rollout was", "second rows of rollouts were"): columns.duplicates,
        ("row of no expected rollout was", "rows of no expected rollout were"): columns.unexpected,
    }
    notes = [f"{counted(count, *words)} left out" for words, count in left_out.items() if count]
    if columns.cut_in_thought:
        some = counted(columns.cut_in_thought, "answer was", "answers were")
        notes.append(f"{some} cut within a thought, before anything was answered: {MORE_TOKENS}")
    if columns.left_out:
        names = ", ".join(sorted(columns.left_out)[:5])
        notes.append(f"more than {cols.MAX_EXTRA_FIELDS} numeric fields; not summarised: {names}")
    return tuple(notes)
