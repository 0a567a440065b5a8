"""`gym eval compare`: paired differences between two runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option

if TYPE_CHECKING:
    from nemo_gym.rollouts.scores.aggregate_pairs import PairedAggregate
    from nemo_gym.rollouts.scores.compare import Comparison, Comparisons, Paired
    from nemo_gym.rollouts.scores.compare_many import RunComparison


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="A B...", shell_complete=completing.run_ids)
@json_option
def compare(runs: tuple[str, ...], as_json: bool) -> None:
    """Compare run B, and each further run, with run A, task by task.

    Each is a run directory, a benchmark's folder, its artifacts folder, a rollouts.jsonl, or the id of a
    submission, the unique beginning of one, or `latest`. Runs whose tasks or grading differ are refused. With
    more than two runs, what is called better or worse is corrected for the number of comparisons.
    """
    from nemo_gym.cli.submissions import report
    from nemo_gym.orchestration.results.compared_runs import compared_runs

    found = compared_runs(runs, report=report)
    if as_json:
        _print_json(runs, found)
    elif len(found) == 1:
        _print(found[0].comparisons)
    else:
        _print_many(runs[0], found)


def _print_json(runs: tuple[str, ...], found: list[RunComparison]) -> None:
    import json

    if len(found) == 1:
        document = found[0].comparisons.to_json()
    else:
        comparisons = [comparison.to_json() for comparison in found]
        document = {"schema_version": 1, "first": runs[0], "comparisons": comparisons}
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


_MANY = ("RUN", "BENCHMARK", "FIRST", "RUN", "DIFFERENCE", "95% INTERVAL", "TASKS", "P (CORRECTED)", "")


def _print_many(first: str, found: list[RunComparison]) -> None:
    from nemo_gym.cli.submissions import report, terminal_width
    from nemo_gym.text_table import table

    rows = []
    for run in found:
        for comparison, p, conclusion in zip(
            run.comparisons.shared, run.adjusted, run.conclusions(), strict=True
        ):
            cells = _row(comparison.benchmark, comparison.paired)
            rows.append([run.name, *cells[:6], "<0.001" if p < 0.001 else f"{p:.3f}", conclusion])
            for line in _notes(comparison):
                report(f"{run.name}: {line}")
        for where, names in ((first, run.comparisons.only_a), (run.name, run.comparisons.only_b)):
            if names:
                report(f"only in {where}: {', '.join(names)}")
    click.echo(f"each run against the first, {first}; p-values of all comparisons corrected (Holm)")
    click.echo(table(_MANY, rows, terminal_width()))


def _print(found: Comparisons) -> None:
    from rich.console import Console
    from rich.table import Table

    from nemo_runs.drawn_tables import trimmed

    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("benchmark")
    for name in ("A", "B", "B - A", "95% interval", "tasks", "better", "worse", "same"):
        table.add_column(name, justify="right")
    table.add_column("")
    for comparison in found.shared:
        table.add_row(*_row(comparison.benchmark, comparison.paired))
        for name, paired in comparison.metrics.items():
            table.add_row(*_row(f"  {name}", paired, shares=False))
        for name, aggregate in comparison.aggregates.items():
            table.add_row(*_aggregate_row(f"  {name}", aggregate, comparison.paired.tasks))
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


def _aggregate_row(name: str, paired: PairedAggregate, tasks: int) -> list[str]:
    """A metric of whole runs, of which no single task is better or worse."""
    known = paired.low is not None and paired.high is not None
    interval = f"{paired.low:+.4g} to {paired.high:+.4g}" if known else "-"
    values = [f"{paired.value_a:.4g}", f"{paired.value_b:.4g}", f"{paired.difference:+.4g}"]
    independent = " (taken as independent)" if paired.method == "independent" else ""
    return [name, *values, interval, f"{tasks:,}", "-", "-", "-", f"{paired.sentence}{independent}"]


def _notes(comparison: Comparison) -> list[str]:
    lines = [f"{comparison.benchmark}: {change}" for change in comparison.differs]
    if comparison.unpaired_a or comparison.unpaired_b:
        lines.append(
            f"{comparison.benchmark}: left out are tasks that one side has not measured: "
            f"{comparison.unpaired_a:,} by B, {comparison.unpaired_b:,} by A"
        )
    return lines
