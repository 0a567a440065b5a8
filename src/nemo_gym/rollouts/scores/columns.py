"""One pass over the results: a few numbers of each rollout in arrays, never the rows themselves."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output import framing, rows
from nemo_gym.rollouts.output.result_rows import JUDGES, METRICS, NOT_GRADED_FIELD
from nemo_gym.types import answer_end, is_cut_in_thought, is_truncated, token_count
from nemo_runs.durable import files

MEASURED = 1
MASKED = 2
UNSCORED = 4
TRUNCATED = 8
NO_ANSWER = 16
FAILED = 32
NOT_GRADED = 64
_RECORDED = MEASURED | MASKED | UNSCORED

USAGE = ("input_tokens", "output_tokens", "total_tokens")
PERF = ("prompt_tokens", "completion_tokens", "num_turns", "num_tool_calls", "total_latency_ms")
THOUGHTS = ("reasoning_tokens", "reasoning_chars")
"""Of ``ng_perf`` too, but only where a model thought."""
JUDGE_USE = ("requests", "prompt_tokens", "completion_tokens", "latency_ms")
"""What a row says about each judge model that graded it."""
MAX_METRICS = 64
"""Metrics of a verifier that are summarised; further ones are only named."""
MAX_EXTRA_FIELDS = 16
"""Numeric fields of a verifier's or agent's own that are summarised; further ones are only named."""
_NOT_MEASURES = {"reward", "mask_sample", rows.TASK_INDEX, rows.ROLLOUT_INDEX, "_ng_attempt_index"}


@dataclass(slots=True)
class Columns:
    """Numbers of all expected rollouts, in order of (task, repeat); NaN where a rollout has none.

    About 45 bytes a rollout, and 8 for each further numeric field.
    """

    num_tasks: int
    num_repeats: int
    state: bytearray
    reward: array[float]
    answers: array[int]
    """A number that stands for the answer, equal for equal answers; 0 for none."""
    usage: dict[str, array[float]]
    perf: dict[str, array[float]]
    extra: dict[str, array[float]] = field(default_factory=dict)
    metrics: dict[str, array[float]] = field(default_factory=dict)
    """The verifier's metrics; NaN also where a rollout's value is null."""
    source: frozenset[str] = frozenset()
    """Keys of the materialized row: they describe the task, so they are not measured."""
    head: dict[str, Any] = field(default_factory=dict)
    """``agent_ref`` and ``task_source`` of the first row."""
    answers_seen: bool = False
    """Whether any row has an ``extracted_answer`` at all, null or not."""
    left_out: set[str] = field(default_factory=set)
    metrics_left_out: set[str] = field(default_factory=set)
    ends: Counter[str] = field(default_factory=Counter)
    """Measured rollouts by how their answer ended, good ends left out."""
    cut_in_thought: int = 0
    """Measured rollouts whose answer stopped at the token limit before anything but thoughts was said."""
    thoughts: dict[str, int] = field(default_factory=lambda: {"answers": 0, **dict.fromkeys(THOUGHTS, 0)})
    """Answers with thoughts, and how much of them there is in all."""
    judges: dict[str, dict[str, float]] = field(default_factory=dict)
    """What grading took of each judge model in all: ``requests``, tokens and ``latency_ms``."""
    rows: int = 0
    damaged: int = 0
    duplicates: int = 0
    unexpected: int = 0
    failure_rows: int = 0
    failure_classes: Counter[str] = field(default_factory=Counter)

    @property
    def expected(self) -> int:
        """How many rollouts there should be."""
        return self.num_tasks * self.num_repeats

    def flagged(self, flag: int) -> bytes:
        """One byte a rollout, non-zero where the flag is set."""
        return bytes(self.state).translate(_with(flag))

    def measured(self, column: array[float]) -> Iterator[float]:
        """The values of a column in the measured rollouts that have one."""
        return (value for value in compress(column, self.flagged(MEASURED)) if not math.isnan(value))

    def count(self, flag: int) -> int:
        """How many rollouts have the flag."""
        return self.expected - self.flagged(flag).count(0)

    def quality(self) -> dict[str, array[float]]:
        """The columns that say how good answers were, by field."""
        return {"reward": self.reward, **self.usage, **self.extra}


def read_columns(paths: RolloutPaths, *, num_tasks: int, num_repeats: int) -> Columns:
    """Read results and failures once. Damaged, doubled and unexpected rows are counted and left out."""
    expected = num_tasks * num_repeats
    columns = Columns(
        num_tasks,
        num_repeats,
        bytearray(expected),
        array("d", [math.nan]) * expected,
        array("q", [0]) * expected,
        {name: array("f", [math.nan]) * expected for name in USAGE},
        {name: array("f", [math.nan]) * expected for name in PERF},
        source=source_keys(paths),
    )
    for line, identity in _rows(paths.output):
        _take_row(columns, line, identity)
    for line, identity in _rows(paths.failures):
        _take_failure(columns, line, identity)
    return columns


def _with(flag: int) -> bytes:
    return bytes(value & flag for value in range(256))


def _lines(path: Path) -> Iterator[bytes]:
    try:
        yield from files.read_lines(path)
    except FileNotFoundError:
        return


def _rows(path: Path) -> Iterator[tuple[bytes, tuple[int, int] | None]]:
    try:
        for _, line, identity in framing.read_rows(path):
            yield line, identity
    except FileNotFoundError:
        return


def source_keys(paths: RolloutPaths) -> frozenset[str]:
    """The keys of a materialized row, which describe the task; empty where there is none."""
    for line in _lines(paths.materialized_inputs):
        row = orjson.loads(line)
        return frozenset(row) - {"reward"} if isinstance(row, dict) else frozenset()
    return frozenset()


def _place(columns: Columns, identity: tuple[int, int] | None) -> int | None:
    """Where a row belongs, or ``None`` (counted) when it belongs nowhere."""
    if identity is None:
        columns.damaged += 1
        return None
    task_index, rollout_index = identity
    if task_index >= columns.num_tasks or rollout_index >= columns.num_repeats:
        columns.unexpected += 1
        return None
    return task_index * columns.num_repeats + rollout_index


def _take_row(columns: Columns, line: bytes, identity: tuple[int, int] | None) -> None:
    at = _place(columns, identity)
    if at is None:
        return
    if columns.state[at] & _RECORDED:
        columns.duplicates += 1
        return
    row: dict[str, Any] = orjson.loads(line)
    response = row.get("response")
    response = response if isinstance(response, dict) else {}
    columns.rows += 1
    columns.head = columns.head or {key: row.get(key) for key in ("agent_ref", "task_source")}
    columns.state[at] = _score(columns, row, at)
    _take_end(columns, row, response, at)
    perf = row.get("ng_perf")
    _fill(columns.usage, response.get("usage"), at)
    _fill(columns.perf, perf, at)
    if isinstance(perf, dict) and not perf.keys().isdisjoint(THOUGHTS):
        columns.thoughts["answers"] += 1
        for name in THOUGHTS:
            columns.thoughts[name] += token_count(perf.get(name))
    if JUDGES in row:
        _take_judges(columns, row[JUDGES])
    if METRICS in row:
        _take_metrics(columns, row[METRICS], at)
    for name, value in row.items():
        if type(value) in _NUMBERS and name not in _NOT_MEASURES and name not in columns.source:
            _extra(columns, name, value, at)


_NUMBERS = frozenset({int, float, bool})


def _take_end(columns: Columns, row: Mapping[str, Any], response: Mapping[str, Any], at: int) -> None:
    end = answer_end(response)
    if end == "completed" and NOT_GRADED_FIELD not in row:
        return
    if is_truncated(response):
        columns.state[at] |= TRUNCATED
    if columns.state[at] & MEASURED:
        columns.ends[end] += 1
        columns.cut_in_thought += is_cut_in_thought(response)
        if row.get(NOT_GRADED_FIELD):
            columns.state[at] |= NOT_GRADED


def _score(columns: Columns, row: Mapping[str, Any], at: int) -> int:
    reward = row.get("reward")
    state = MEASURED
    if row.get("mask_sample") is True:
        state = MASKED
    elif type(reward) not in _NUMBERS:
        state = UNSCORED
    else:
        columns.reward[at] = reward  # type: ignore[assignment]  # one of the three number types
    if "extracted_answer" in row:
        columns.answers_seen = True
        answer = row["extracted_answer"]
        if answer is None:
            return state | NO_ANSWER
        columns.answers[at] = hash(answer if isinstance(answer, str) else repr(answer)) or 1
    return state


def _fill(group: dict[str, array[float]], values: Any, at: int) -> None:
    if not isinstance(values, dict):
        return
    for name, column in group.items():
        value = values.get(name)
        if type(value) in _NUMBERS:
            column[at] = value  # type: ignore[assignment]  # one of the three number types


def _extra(columns: Columns, name: str, value: float, at: int) -> None:
    column = columns.extra.get(name)
    if column is None:
        if len(columns.extra) >= MAX_EXTRA_FIELDS or len(columns.left_out) > MAX_EXTRA_FIELDS:
            columns.left_out.add(name)
            return
        column = columns.extra[name] = array("d", [math.nan]) * columns.expected
    column[at] = value


def _take_metrics(columns: Columns, metrics: Any, at: int) -> None:
    for name, value in metrics.items() if isinstance(metrics, dict) else ():
        column = columns.metrics.get(name)
        if column is None:
            if len(columns.metrics) >= MAX_METRICS:
                columns.metrics_left_out.add(name)
                continue
            column = columns.metrics[name] = array("d", [math.nan]) * columns.expected
        if type(value) in _NUMBERS:
            column[at] = value


def _take_judges(columns: Columns, judges: Any) -> None:
    for name, use in judges.items() if isinstance(judges, dict) else ():
        total = columns.judges.setdefault(name, dict.fromkeys(JUDGE_USE, 0.0))
        for key in JUDGE_USE:
            value = use.get(key) if isinstance(use, dict) else None
            total[key] += float(value) if isinstance(value, int | float) else 0.0


def _take_failure(columns: Columns, line: bytes, identity: tuple[int, int] | None) -> None:
    at = _place(columns, identity)
    if at is None:
        return
    columns.failure_rows += 1
    row = orjson.loads(line)
    columns.failure_classes[str(row.get("_ng_failure_class"))] += 1
    if not columns.state[at] & _RECORDED:
        columns.state[at] |= FAILED
