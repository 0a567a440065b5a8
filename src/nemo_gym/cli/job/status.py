"""`gym job status`: what every benchmark of some submissions is doing, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import json_option
from nemo_gym.errors import EXIT_DONE, EXIT_ERROR

if TYPE_CHECKING:
    from nemo_gym.orchestration.status.report import SubmissionStatus


@click.command(short_help="What every benchmark is doing, and why.")
@click.argument("ids", nargs=-1, shell_complete=completing.run_ids)
@labels_option("Submissions with this label; can be repeated.")
@click.option("--limit", type=click.IntRange(min=1), help="The newest N only.")
@click.option("--live", is_flag=True, help="Only benchmarks that are queued or running.")
@click.option("--exit-status", is_flag=True, help="End with 1 unless all have succeeded or stopped.")
@json_option
def status(
    ids: tuple[str, ...],
    labels: dict[str, str],
    limit: int | None,
    live: bool,
    exit_status: bool,
    as_json: bool,
) -> int:
    """Show state, reason, progress over all runs, mean reward, time left, and the next useful command.

    IDS are full ids, unique beginnings of ids, `latest`, or run directories. With neither ids nor labels
    every submission of the local index is shown. Each machine is asked once. One that gives no answer
    changes nothing: the last known state is shown with its age.
    """
    from nemo_gym.cli.submissions import report, several, shows_colours, terminal_width
    from nemo_gym.orchestration.status.gather import gather
    from nemo_gym.orchestration.status.last_status import LastStatus
    from nemo_gym.orchestration.status.machines import SubmissionMachines
    from nemo_gym.orchestration.status.report import narrowed, of_submissions, to_json
    from nemo_gym.orchestration.status.report_text import status_text
    from nemo_runs.clock import SystemClock, utc_text

    records = several(ids, labels, limit=limit)
    with SubmissionMachines() as machines:
        found = of_submissions(gather(records, machines).values())
    found = LastStatus().completed(found, now=SystemClock().seconds())
    shown = narrowed(found) if live else found
    if as_json:
        at = utc_text(SystemClock().seconds())
        click.echo(json.dumps(to_json(shown, at=at), indent=2, ensure_ascii=False))
    elif shown:
        click.echo(status_text(shown, terminal_width(), colour=shows_colours()))
    else:
        report(
            "no submission matches; `gym job list` shows what is there."
            if found or ids or labels
            else "no submissions here; `gym eval submit -c FILE` makes one."
        )
    return status_of(found) if exit_status else EXIT_DONE


def status_of(found: Sequence[SubmissionStatus]) -> int:
    """0 when every benchmark has succeeded or stopped."""
    states = [status.state for submission in found for status in submission.benchmarks]
    return EXIT_DONE if all(state.ended_well for state in states) else EXIT_ERROR
