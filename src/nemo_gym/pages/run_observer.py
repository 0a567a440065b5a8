"""Puts what is known of evaluations into the table of runs, after each look of the index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nemo_gym.pages.index.known_runs import KnownRun
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_gym.pages.run_rows import evaluation_rows
from nemo_pages.runs.table import RunTable, SourceState

SOURCE: Final = "evaluations"


def show_evaluations(
    index: EvaluationIndex, table: RunTable, workspace_of: Callable[[KnownRun], str] = lambda _: ""
) -> None:
    """Keep the rows of all evaluations in a table from now on.

    ``workspace_of``: the workspace whose readers see a run; empty: none.
    """
    table.observed(SourceState(SOURCE, None))

    def show() -> None:
        rows = [row for run in index.runs() for row in evaluation_rows(run, workspace_of(run))]
        table.put(SOURCE, rows, complete=True)
        seen_at = index.seen_at or None
        table.observed(SourceState(SOURCE, seen_at, "; ".join(index.problems)[:2000]))

    index.after_look(show)
