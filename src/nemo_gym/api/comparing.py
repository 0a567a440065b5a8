"""Runs side by side, from Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from nemo_gym.api.eval_results import EvalResult
from nemo_gym.orchestration.results.compared_runs import compared_runs
from nemo_gym.reports import to_stderr
from nemo_gym.rollouts.scores.compare_many import RunComparison
from nemo_gym.text_table import table
from nemo_runs.drawn_tables import html_table

_COLUMNS = (
    *("RUN", "BENCHMARK", "FIRST", "RUN", "DIFFERENCE", "95% INTERVAL", "TASKS", "P (CORRECTED)"),
    "CONCLUSION",
)


class RunComparisons(Sequence[RunComparison]):
    """Each further run against the first one, task by task; p-values are corrected for their number.

    A sequence with one `nemo_gym.rollouts.scores.compare_many.RunComparison` for each run but the first.
    """

    first: str
    """The run that the others are compared with."""

    def __init__(self, first: str, found: Sequence[RunComparison]) -> None:
        self.first = first
        self._found = tuple(found)

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, at: int) -> RunComparison: ...
    @overload
    def __getitem__(self, at: slice) -> RunComparisons: ...
    def __getitem__(self, at: int | slice) -> RunComparison | RunComparisons:
        return RunComparisons(self.first, self._found[at]) if isinstance(at, slice) else self._found[at]

    def __iter__(self) -> Iterator[RunComparison]:
        return iter(self._found)

    def _rows(self) -> list[list[str]]:
        return [
            [
                run.name,
                comparison.benchmark,
                f"{comparison.paired.mean_a:.1%}",
                f"{comparison.paired.mean_b:.1%}",
                f"{100 * comparison.paired.difference:+.1f}",
                f"{100 * comparison.paired.low:+.1f} to {100 * comparison.paired.high:+.1f}",
                f"{comparison.paired.tasks:,}",
                f"{p:.3f}",
                conclusion,
            ]
            for run in self._found
            for comparison, p, conclusion in zip(
                run.comparisons.shared, run.adjusted, run.conclusions(), strict=True
            )
        ]

    def __repr__(self) -> str:
        return f"each run against the first, {self.first}\n{table(_COLUMNS, self._rows())}"

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, self._rows(), f"each run against the first, {self.first}")


def compare(*runs: str | Path | EvalResult) -> RunComparisons:
    """Compare each run with the first one, task by task.

    Each is what `nemo_gym.results` takes, or one of its results. Raises `nemo_gym.errors.GymError` for runs
    that are not there, or whose tasks or grading differ.
    """
    names = [str(run.output if isinstance(run, EvalResult) else run) for run in runs]
    return RunComparisons(names[0] if names else "", compared_runs(names, report=to_stderr))
