"""`gym job results`: the scores of submissions, one row a benchmark."""

from __future__ import annotations

import json

import click

from nemo_gym.cli import completing
from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import json_option
from nemo_gym.errors import UsageError


@click.command(short_help="Scores of submissions, one row a benchmark.")
@click.argument("ids", nargs=-1, shell_complete=completing.run_ids)
@labels_option("Submissions with this label; can be repeated.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@json_option
def results(ids: tuple[str, ...], labels: dict[str, str], as_csv: bool, as_json: bool) -> int:
    """Show score, interval, coverage and model of each benchmark.

    IDS are full ids, unique beginnings of ids, `latest`, or run directories. With neither ids nor labels
    every submission of the local index is shown. A benchmark that is not finished says so.
    """
    if ids and labels:
        raise UsageError("give ids or --label, not both.")
    if as_csv and as_json:
        raise UsageError("give --csv or --json, not both.")
    from nemo_gym.cli.submissions import terminal_width
    from nemo_gym.orchestration.records import index, locations
    from nemo_gym.orchestration.results import scores

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    if ids:
        records = [locations.readable(name, report=report) for name in ids]
    else:
        records = index.newest(limit=None, labels=labels, report=report)
    rows = [row for record in records for row in scores.results(record, report=report)]
    if as_json:
        document = {"schema_version": 1, "results": [row.to_json() for row in rows]}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif as_csv:
        click.echo(scores.to_csv(rows), nl=False)
    elif rows:
        click.echo(scores.results_table(rows, terminal_width()))
    else:
        report(
            "no submission matches; `gym job list` shows what is there."
            if ids or labels
            else "no submissions here; `gym eval submit -c FILE` makes one."
        )
    return 0
