"""A comparison of two runs in words: the rows of a table and the notes below it, for terminal and page."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_gym.rollouts.scores.aggregate_pairs import PairedAggregate
from nemo_gym.rollouts.scores.compare import Comparison, Paired

COLUMNS = ("benchmark", "A", "B", "B - A", "95% interval", "tasks", "better", "worse", "same", "")
"""Headings of the rows."""


def rows_of(comparison: Comparison) -> list[list[str]]:
    """The benchmark first, then its metrics and groups, whose names are indented."""
    return list(_rows(comparison))


def _rows(comparison: Comparison) -> Iterator[list[str]]:
    yield _row(comparison.benchmark, comparison.paired)
    for name, paired in comparison.metrics.items():
        yield _row(f"  {name}", paired, shares=False)
    for name, aggregate in comparison.aggregates.items():
        yield _aggregate_row(f"  {name}", aggregate, comparison.paired.tasks)
    for by, groups in comparison.groups.items():
        for group, paired in groups.items():
            yield _row(f"  {by}={group}", paired)


def notes_of(comparison: Comparison) -> list[str]:
    """Settings that differ, and tasks that are left out."""
    lines = [f"{comparison.benchmark}: {change}" for change in comparison.differs]
    if comparison.unpaired_a or comparison.unpaired_b:
        lines.append(
            f"{comparison.benchmark}: left out are tasks that one side has not measured: "
            f"{comparison.unpaired_a:,} by B, {comparison.unpaired_b:,} by A"
        )
    return lines


def _row(name: str, paired: Paired, *, shares: bool = True) -> list[str]:
    """One line; values of rewards as percent, those of metrics as they are."""

    def value(number: float, sign: str = "") -> str:
        if shares:
            return f"{100 * number:+.1f}" if sign else f"{number:.1%}"
        return f"{number:{sign}.4g}"

    return [
        name,
        value(paired.mean_a),
        value(paired.mean_b),
        value(paired.difference, "+"),
        f"{value(paired.low, '+')} to {value(paired.high, '+')}",
        f"{paired.tasks:,}",
        f"{paired.better:,}",
        f"{paired.worse:,}",
        f"{paired.same:,}",
        paired.sentence,
    ]


def _aggregate_row(name: str, paired: PairedAggregate, tasks: int) -> list[str]:
    """A metric of whole runs, of which no single task is better or worse."""
    known = paired.low is not None and paired.high is not None
    interval = f"{paired.low:+.4g} to {paired.high:+.4g}" if known else "-"
    values = [f"{paired.value_a:.4g}", f"{paired.value_b:.4g}", f"{paired.difference:+.4g}"]
    independent = " (taken as independent)" if paired.method == "independent" else ""
    return [name, *values, interval, f"{tasks:,}", "-", "-", "-", f"{paired.sentence}{independent}"]
