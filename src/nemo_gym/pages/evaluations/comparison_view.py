"""The values of the page with two or more runs side by side."""

from __future__ import annotations

from typing import Any

from nemo_gym.orchestration.results.compare_text import COLUMNS, notes_of, rows_of
from nemo_gym.pages.evaluations.late_answers import MOST_FLIPS, comparison_of
from nemo_gym.pages.index.known_runs import KnownRun
from nemo_gym.pages.index.observer import EvaluationIndex


def comparison_values(index: EvaluationIndex, runs: list[KnownRun]) -> dict[str, Any]:
    """Everything that the template needs."""
    version = str(index.answers.version)
    answer = comparison_of(index, runs)
    found = answer.value
    tables = []
    for compared in found.found if found is not None else []:
        rows = [row for one in compared.comparisons.shared for row in rows_of(one)]
        tables.append(
            (compared, rows, [note for one in compared.comparisons.shared for note in notes_of(one)])
        )
    return {
        "runs": runs,
        "answer": answer,
        "tables": tables,
        "columns": COLUMNS,
        "benchmarks": found.benchmarks if found is not None and len(runs) == 2 else [],
        "most_flips": MOST_FLIPS,
        "topic": comparison_topic(runs),
        "version": version,
    }


def comparison_topic(runs: list[KnownRun]) -> str:
    """The topic of events that says that a comparison changed."""
    return f"comparison-{'-'.join(run.run_id for run in runs)}"
