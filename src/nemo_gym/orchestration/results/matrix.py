"""Scores of many runs as one table: a row for each model, say, and a column for each benchmark.

The best of a column is marked only where its difference from every other one is significant. Differences are
paired task by task, and corrected for the number of all pairs of the table, since the best is chosen by
looking at all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from nemo_gym.errors import GymError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.orchestration.results.scores import BenchmarkResult
from nemo_gym.rollouts.scores.compare import MeasuredTasks, measured_tasks, paired_tasks
from nemo_gym.rollouts.scores.significance import ALPHA, holm, p_value


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """The result of one row in one column."""

    row: str
    column: str
    result: BenchmarkResult
    best: bool = False
    """Whether it is significantly better than every other one of its column."""


@dataclass(frozen=True, slots=True)
class PairDifference:
    """Two cells of a column, ``b`` against ``a``."""

    column: str
    a: str
    b: str
    difference: float
    """Mean reward of b minus that of a, over the tasks that both have."""
    p_value: float
    p_adjusted: float
    """Corrected for the number of pairs in the whole table."""


@dataclass(frozen=True, slots=True)
class ScoreMatrix:
    """The table; rows and columns in the order in which they came."""

    rows: Sequence[str]
    columns: Sequence[str]
    cells: Mapping[tuple[str, str], MatrixCell]
    pairs: Sequence[PairDifference] = ()
    notes: Sequence[str] = field(default_factory=list)
    """What keeps cells from being compared or from being complete."""
    facts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By row, the values of further columns; those of its cells that differ are all there."""

    def to_json(self) -> dict[str, Any]:
        """One document for ``--json``."""
        cells = [
            {"row": cell.row, "column": cell.column, "best": cell.best, **cell.result.to_json()}
            for cell in self.cells.values()
        ]
        return {
            "schema_version": 1,
            "rows": list(self.rows),
            "columns": list(self.columns),
            "cells": cells,
            "pairs": [asdict(pair) for pair in self.pairs],
            "alpha": ALPHA,
            "notes": list(self.notes),
            **({"facts": {row: list(values) for row, values in self.facts.items()}} if self.facts else {}),
        }


def score_matrix(
    results: Iterable[tuple[str, BenchmarkResult]], facts: Sequence[Sequence[str | None]] = ()
) -> ScoreMatrix:
    """The table of some results, each with the name of its row, newest first.

    ``facts`` are values of further columns, result by result. Where a row has two results of a benchmark,
    both rows carry their submission's id.
    """
    found = _distinguished(list(results))
    rows = list(dict.fromkeys(row for row, _ in found))
    columns = list(dict.fromkeys(result.column for _, result in found))
    cells = {(row, result.column): MatrixCell(row, result.column, result) for row, result in found}
    notes = [f"{row}, {result.column}: {result.detail}" for row, result in found if result.detail]
    pairs = _pairs(cells, rows, columns, notes)
    for key in _best(cells, rows, columns, pairs):
        cell = cells[key]
        cells[key] = MatrixCell(cell.row, cell.column, cell.result, best=True)
    return ScoreMatrix(rows, columns, cells, pairs, notes, _facts_of_rows([row for row, _ in found], facts))


def _facts_of_rows(names: Sequence[str], facts: Sequence[Sequence[str | None]]) -> dict[str, list[str]]:
    found: dict[str, list[dict[str, None]]] = {}
    for name, values in zip(names, facts, strict=False):
        its = found.setdefault(name, [{} for _ in values])
        for known, value in zip(its, values, strict=True):
            known.update({} if value is None else {value: None})
    return {name: [", ".join(known) for known in its] for name, its in found.items()}


def _distinguished(found: list[tuple[str, BenchmarkResult]]) -> list[tuple[str, BenchmarkResult]]:
    seen: dict[tuple[str, str], set[str]] = {}
    for row, result in found:
        seen.setdefault((row, result.column), set()).add(result.gym_job_id)
    doubled = {row for (row, _), ids in seen.items() if len(ids) > 1}
    return [(f"{row} ({result.gym_job_id})" if row in doubled else row, result) for row, result in found]


def _pairs(
    cells: Mapping[tuple[str, str], MatrixCell], rows: Sequence[str], columns: Sequence[str], notes: list[str]
) -> list[PairDifference]:
    found: list[tuple[str, str, str, float, float]] = []
    for column in columns:
        scored = [
            row
            for row in rows
            if (cell := cells.get((row, column))) is not None
            and cell.result.score is not None
            and cell.result.metric is None  # only rewards are paired
        ]
        if len(scored) < 2:
            continue
        measured = {row: _measured(cells[row, column].result, notes) for row in scored}
        for a, b in combinations(scored, 2):
            left, right = measured[a], measured[b]
            if left is None or right is None:
                continue
            try:
                paired = paired_tasks(left, right)
            except GymError as error:
                notes.append(f"{column}: {a} and {b} are not compared: {error}")
                continue
            found.append((column, a, b, paired.difference, p_value(paired)))
    adjusted = holm([p for *_, p in found])
    return [PairDifference(*pair, corrected) for pair, corrected in zip(found, adjusted, strict=True)]


def _measured(result: BenchmarkResult, notes: list[str]) -> MeasuredTasks | None:
    try:
        return measured_tasks(RolloutPaths(Path(result.output)))
    except (GymError, OSError) as error:
        notes.append(f"{result.benchmark} of {result.gym_job_id} is not compared: {error}")
        return None


def _best(
    cells: Mapping[tuple[str, str], MatrixCell],
    rows: Sequence[str],
    columns: Sequence[str],
    pairs: Sequence[PairDifference],
) -> list[tuple[str, str]]:
    """Cells that beat every other scored cell of their column."""
    beaten = {
        (pair.column, *((pair.b, pair.a) if pair.difference > 0 else (pair.a, pair.b)))
        for pair in pairs
        if pair.p_adjusted < ALPHA
    }
    found = []
    for column in columns:
        scored = [
            row
            for row in rows
            if (cell := cells.get((row, column))) is not None and cell.result.score is not None
        ]
        for row in scored:
            others = [other for other in scored if other != row]
            if others and all((column, row, other) in beaten for other in others):
                found.append((row, column))
    return found
