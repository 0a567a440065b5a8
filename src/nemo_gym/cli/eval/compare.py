"""`gym eval compare`: paired differences between two runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemo_gym.cli.options import json_option

if TYPE_CHECKING:
    from nemo_gym.rollouts.scores.compare import Comparison, Comparisons, Paired

_PATH = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
@json_option
def compare(a: Path, b: Path, as_json: bool) -> None:
    """Compare run B with run A, task by task.

    Each is a run directory, a benchmark's folder, its artifacts folder or a rollouts.jsonl. Runs whose tasks
    or grading differ are refused.
    """
    from nemo_gym.rollouts.scores.compare import compare as compare_runs

    found = compare_runs(a, b)
    if as_json:
        import json

        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        _print(found)


def _print(found: Comparisons) -> None:
    from rich.console import Console
    from rich.table import Table

    from nemo_runs.trimmed import trimmed

    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("benchmark")
    for name in ("A", "B", "B - A", "95% interval", "tasks", "better", "worse", "same"):
        table.add_column(name, justify="right")
    table.add_column("")
    for comparison in found.shared:
        table.add_row(*_row(comparison.benchmark, comparison.paired))
        for name, paired in comparison.metrics.items():
            table.add_row(*_row(f"  {name}", paired, shares=False))
        for by, groups in comparison.groups.items():
            for group, paired in groups.items():
                table.add_row(*_row(f"  {by}={group}", paired))
    console = Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else 130, highlight=False, markup=False
    )
    with console.capture() as drawn:
        console.print(table)
    console.file.write(trimmed(drawn.get()))
    for comparison in found.shared:
        for line in _notes(comparison):
            console.print(line, soft_wrap=True)
    for label, names in (("A", found.only_a), ("B", found.only_b)):
        if names:
            console.print(f"only in {label}: {', '.join(names)}", soft_wrap=True)


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


def _notes(comparison: Comparison) -> list[str]:
    lines = [f"{comparison.benchmark}: {change}" for change in comparison.differs]
    if comparison.unpaired_a or comparison.unpaired_b:
        lines.append(
            f"{comparison.benchmark}: left out are tasks that one side has not measured: "
            f"{comparison.unpaired_a:,} by B, {comparison.unpaired_b:,} by A"
        )
    return lines
