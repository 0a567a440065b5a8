"""`gym job list`: this user's submissions from this machine, from the local index alone."""

from __future__ import annotations

import json

import click

from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import json_option


@click.command("list", short_help="Your submissions from this machine, newest first.")
@click.option("--limit", type=click.IntRange(min=1), help="The newest N only.")
@labels_option("Only submissions with this label; can be repeated.")
@json_option
def list_jobs(limit: int | None, labels: dict[str, str], as_json: bool) -> int:
    """List submissions, newest first.

    Only the local index is read, and of a benchmark that could not be queued its folder, if that is on this
    machine: no scheduler is asked, so it works offline.
    """
    from nemo_gym.cli.submissions import terminal_width
    from nemo_gym.orchestration.records import index
    from nemo_gym.orchestration.results import scores

    def say(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    records = index.newest(limit=limit, labels=labels, say=say)
    if as_json:
        document = {"schema_version": 1, "submissions": [record.to_json() for record in records]}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    if not records and labels:
        say("no submission has this label; `gym job list` shows all of them.")
        return 0
    if not records:
        say("no submissions here; `gym eval submit -c FILE` makes one.")
        return 0
    rows = [scores.list_row(record) for record in records]
    click.echo(scores.table(scores.LIST_COLUMNS, rows, terminal_width()))
    return 0
