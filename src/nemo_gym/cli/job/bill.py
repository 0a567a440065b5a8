"""`gym job bill`: what allocated time went into, and what would have saved most."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import json_option
from nemo_gym.errors import EXIT_ERROR, GymError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nemo_gym.orchestration.records.index import Reporter
    from nemo_gym.orchestration.records.locations import SubmissionLocation
    from nemo_gym.orchestration.records.remote_copy import RemoteCopy
    from nemo_slurm.errors import SlurmError


@click.command(short_help="What allocated time went into.")
@click.argument("name", metavar="[ID]", required=False, shell_complete=completing.run_ids)
@labels_option("All submissions with this label; can be repeated.")
@json_option
def bill(name: str | None, labels: dict[str, str], as_json: bool) -> int:
    """Give every allocated second of a submission's jobs one owner: install, load, useful, repeated, drained
    tail or idle; beside them the time in the queue. Then say what would have saved most. Tokens are shown
    beside them, and what all of it cost where the settings have prices.

    ID is a full id, the unique beginning of one, `latest`, or a run directory (a fetched one too). Only files
    are read; a job that still runs is billed up to its last sign of life. Of a run on another machine, small
    files and the times of its rows are fetched into a temporary folder that is removed again.
    """
    if (name is None) == (not labels):
        raise UsageError("give an id or --label.")
    from nemo_gym.cli.submissions import terminal_width
    from nemo_gym.orchestration.config.settings import load_settings
    from nemo_gym.orchestration.records import remote_copy
    from nemo_gym.orchestration.results import bill_report

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    prices = load_settings().prices
    found, passed_over = [], 0
    why = "small files and the times of rows are fetched"
    with remote_copy.RemoteCopy(remote_copy.for_bill, report=report, why=why) as near:
        for location in _locations(name, labels, near, report):
            if isinstance(location, Exception):
                report(f"passed over: {location}")
                passed_over += 1
            else:
                found += bill_report.bills_of(location, prices)
    if as_json:
        click.echo(json.dumps(bill_report.to_json(found), indent=2, ensure_ascii=False))
    elif found:
        click.echo(bill_report.to_text(found, terminal_width()))
    else:
        report("nothing to bill: no job of it has started.")
    return EXIT_ERROR if passed_over else 0


def _locations(
    name: str | None, labels: dict[str, str], near: RemoteCopy, report: Reporter
) -> Iterator[SubmissionLocation | GymError | SlurmError]:
    """Where the files are; for labels, an error in place of each submission whose files cannot be had."""
    from nemo_gym.orchestration.records import index
    from nemo_slurm.errors import SlurmError

    if name is not None:
        yield near.find(name)
        return
    for record in index.newest(limit=None, labels=labels, report=report):
        try:
            yield near.of(record)
        except (GymError, SlurmError) as error:
            yield error
