"""`gym eval compare`: paired differences between two runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option

if TYPE_CHECKING:
    from nemo_gym.rollouts.scores.compare import Comparisons
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
    from nemo_gym.orchestration.results.compare_text import notes_of, rows_of
    from nemo_gym.text_table import table

    rows = []
    for run in found:
        for comparison, p, conclusion in zip(
            run.comparisons.shared, run.adjusted, run.conclusions(), strict=True
        ):
            cells = rows_of(comparison)[0]
            rows.append([run.name, *cells[:6], "<0.001" if p < 0.001 else f"{p:.3f}", conclusion])
            for line in notes_of(comparison):
                report(f"{run.name}: {line}")
        for where, names in ((first, run.comparisons.only_a), (run.name, run.comparisons.only_b)):
            if names:
                report(f"only in {where}: {', '.join(names)}")
    click.echo(f"each run against the first, {first}; p-values of all comparisons corrected (Holm)")
    click.echo(table(_MANY, rows, terminal_width()))


def _print(found: Comparisons) -> None:
    from rich.console import Console
    from rich.table import Table

    from nemo_gym.orchestration.results.compare_text import COLUMNS, notes_of, rows_of
    from nemo_runs.drawn_tables import trimmed

    table = Table(box=None, pad_edge=False, show_edge=False)
    for at, name in enumerate(COLUMNS):
        table.add_column(name, justify="right" if 0 < at < len(COLUMNS) - 1 else "left")
    for comparison in found.shared:
        for row in rows_of(comparison):
            table.add_row(*row)
    console = Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else 130, highlight=False, markup=False
    )
    with console.capture() as drawn:
        console.print(table)
    console.file.write(trimmed(drawn.get()))
    for comparison in found.shared:
        for line in notes_of(comparison):
            console.print(line, soft_wrap=True)
    for label, names in (("A", found.only_a), ("B", found.only_b)):
        if names:
            console.print(f"only in {label}: {', '.join(names)}", soft_wrap=True)
