"""Puts what is known of evaluations into the table of runs, after each look of the index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nemo_gym.orchestration.results.bill import Bill
from nemo_gym.pages.evaluations.late_answers import bill_of
from nemo_gym.pages.index.known_runs import KnownRun
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_gym.pages.run_rows import evaluation_rows
from nemo_pages.runs.table import RunTable, SourceState

SOURCE: Final = "evaluations"
MOST_BILLED: Final = 20
"""Of the newest runs that have ended the list says what they cost: a bill reads all results of a run."""


def show_evaluations(
    index: EvaluationIndex, table: RunTable, workspace_of: Callable[[KnownRun], str] = lambda _: ""
) -> None:
    """Keep the rows of all evaluations in a table from now on.

    ``workspace_of``: the workspace whose readers see a run; empty: none.
    """
    table.observed(SourceState(SOURCE, None))

    def show() -> None:
        rows, billed = [], 0
        for run in index.runs():
            bills: list[Bill] = []
            if billed < MOST_BILLED and run.record is not None and not run.live:
                billed += 1
                bills = bill_of(index, run).value or []  # worked out elsewhere: a later look has it
            rows += evaluation_rows(run, workspace_of(run), bills)
        table.put(SOURCE, rows, complete=True)
        seen_at = index.seen_at or None
        table.observed(SourceState(SOURCE, seen_at, "; ".join(index.problems)[:2000]))

    index.after_look(show)
