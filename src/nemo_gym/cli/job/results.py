"""`gym job results`: the scores of submissions, one row per benchmark, or all of them as a matrix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import json_option
from nemo_gym.cli.submissions import report, terminal_width
from nemo_gym.errors import UsageError

if TYPE_CHECKING:
    from nemo_gym.orchestration.jobs import SubmissionRecord
    from nemo_gym.orchestration.records.run_outputs import RunOutputs
    from nemo_gym.orchestration.results.scores import BenchmarkResult
    from nemo_gym.orchestration.results.table_formats import TableFormat

    Found = list[tuple[SubmissionRecord | None, BenchmarkResult]]

_FACT = (
    "`model`, `served`, `id`, `age`, `submitted`, `cluster`, `labels`, `label.NAME`, or a setting of the run"
)


@click.command(short_help="Scores of submissions, one row per benchmark.")
@click.argument("ids", nargs=-1, shell_complete=completing.run_ids)
@labels_option("Submissions with this label; can be repeated.")
@click.option("--matrix", is_flag=True, help="A row for each model, a column for each benchmark.")
@click.option(
    "--rows",
    default="model",
    show_default=True,
    metavar="FACT",
    help=f"What makes a row of the matrix: {_FACT}.",
)
@click.option(
    "--with", "facts", multiple=True, metavar="FACT", help=f"A further column: {_FACT}; can be repeated."
)
@click.option("--metric", metavar="NAME", help="Show this metric in place of the score.")
@click.option("--csv", "form", flag_value="csv", help="Print comma-separated values.")
@click.option("--markdown", "form", flag_value="markdown", help="Print a Markdown table.")
@click.option("--latex", "form", flag_value="latex", help="Print a LaTeX table.")
@json_option
def results(
    ids: tuple[str, ...],
    labels: dict[str, str],
    matrix: bool,
    rows: str,
    facts: tuple[str, ...],
    metric: str | None,
    form: TableFormat | None,
    as_json: bool,
) -> int:
    """Show score, interval, coverage and model of each benchmark.

    IDS are full ids, unique beginnings of ids, `latest`, run directories, folders or files that `gym eval
    run` wrote, or folders with any of these, three levels deep. With neither ids nor labels every submission
    of the local index is shown. A benchmark that is not finished says so.

    With --matrix the best score of a column is marked, where its difference from every other one is
    significant: paired task by task, and corrected for the number of all pairs in the table. With --metric
    none is marked, since only scores are paired.
    """
    from nemo_gym.orchestration.results import scores

    if ids and labels:
        raise UsageError("give ids or --label, not both.")
    if form is not None and as_json:
        raise UsageError(f"give --{form} or --json, not both.")
    found = _found(ids, labels, campaigns=matrix)
    if metric is not None:
        found = [(record, scores.with_metric(row, metric)) for record, row in found]
    if not found and not as_json and form is None:
        report(
            "no submission matches; `gym job list` shows what is there."
            if ids or labels
            else "no submissions here; `gym eval submit -c FILE` makes one."
        )
    elif matrix:
        _print_matrix(found, rows, facts, form, as_json=as_json)
    else:
        _print_list(found, facts, form, as_json=as_json)
    return 0


def _found(ids: tuple[str, ...], labels: dict[str, str], *, campaigns: bool) -> Found:
    from nemo_gym.orchestration.records import index
    from nemo_gym.orchestration.records.run_outputs import RunOutputs, runs_named
    from nemo_gym.orchestration.results import scores

    runs: list[SubmissionRecord | RunOutputs] = []
    if ids:
        runs = [run for name in ids for run in runs_named(name, report=report)]
        if campaigns:
            runs = list(_with_other_clusters(runs))
    else:
        runs += index.newest(limit=None, labels=labels, report=report)
    found: Found = []
    for run in runs:
        if isinstance(run, RunOutputs):
            rows = scores.results_without_record(run.name, run.outputs, report=report)
            found += [(None, row) for row in rows]
        else:
            found += [(run, row) for row in scores.results(run, report=report)]
    return found


def _with_other_clusters(
    runs: list[SubmissionRecord | RunOutputs],
) -> Iterator[SubmissionRecord | RunOutputs]:
    """The runs, and submissions to other clusters that one file made together with one of them."""
    from nemo_gym.orchestration.config.clusters import CAMPAIGN
    from nemo_gym.orchestration.jobs import SubmissionRecord
    from nemo_gym.orchestration.records import index

    named = {run.gym_job_id for run in runs if isinstance(run, SubmissionRecord)}
    for record in runs:
        yield record
        campaign = record.labels.get(CAMPAIGN) if isinstance(record, SubmissionRecord) else None
        if campaign is None:
            continue
        for other in index.newest(limit=None, labels={CAMPAIGN: campaign}, report=report):
            if other.gym_job_id not in named:
                named.add(other.gym_job_id)
                yield other


def _facts(found: Found, names: tuple[str, ...]) -> list[list[str | None]]:
    """The facts of each result, in order; says which fact no run has."""
    from nemo_gym.orchestration.results.run_facts import run_fact
    from nemo_runs.clock import SystemClock

    now = SystemClock().seconds()
    values = [[run_fact(name, record, row, now=now) for name in names] for record, row in found]
    for at, name in enumerate(names):
        if values and all(row[at] is None for row in values):
            report(f"no run here has '{name}'.")
    return values


def _print_list(found: Found, facts: tuple[str, ...], form: TableFormat | None, *, as_json: bool) -> None:
    from nemo_gym.orchestration.results import scores
    from nemo_gym.orchestration.results.table_formats import rows_text

    rows = [row for _, row in found]
    values = _facts(found, facts)
    if as_json:
        more = [{"facts": dict(zip(facts, given, strict=True))} if facts else {} for given in values]
        listed = [{**row.to_json(), **extra} for row, extra in zip(rows, more, strict=True)]
        click.echo(json.dumps({"schema_version": 1, "results": listed}, indent=2, ensure_ascii=False))
        return
    texts = [["" if value is None else value for value in given] for given in values]
    if form == "csv":
        click.echo(scores.to_csv(rows, facts, texts), nl=False)
    elif form is not None:
        click.echo(rows_text(*scores.results_cells(rows, facts, texts), form), nl=False)
    else:
        click.echo(scores.results_table(rows, terminal_width(), facts, texts))


def _print_matrix(
    found: Found, rows: str, facts: tuple[str, ...], form: TableFormat | None, *, as_json: bool
) -> None:
    from nemo_gym.orchestration.results.matrix import score_matrix
    from nemo_gym.orchestration.results.table_formats import matrix_text

    given = _facts(found, (rows, *facts))
    named = [(name or "-", row) for (name, *_), (_, row) in zip(given, found, strict=True)]
    matrix = score_matrix(named, [values for _, *values in given] if facts else ())
    if as_json:
        click.echo(json.dumps(matrix.to_json(), indent=2, ensure_ascii=False))
        return
    width = terminal_width()
    text = matrix_text(matrix, form or "text", head=rows, facts=facts, width=width)
    click.echo(text.rstrip("\n"))
    if form is None:
        best = "; * best, significantly better than every other one of its column"
        metric = next((row.metric for _, row in found if row.metric is not None), None)
        more = best if len(matrix.rows) > 1 and metric is None else ""
        click.echo(f"\n{metric or 'percent'}, with 95% intervals{more}")
    for note in matrix.notes:
        report(note)
