"""`gym job watch`: the status of submissions again and again, until all have ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import json_option
from nemo_gym.errors import EXIT_DONE

if TYPE_CHECKING:
    from nemo_gym.orchestration.status.report import SubmissionStatus


@click.command(short_help="Follow the status until all have ended.")
@click.argument("ids", nargs=-1, shell_complete=completing.run_ids)
@labels_option("Submissions with this label; can be repeated.")
@click.option("--exit-status", is_flag=True, help="End with 1 unless all have succeeded or stopped.")
@json_option
def watch(ids: tuple[str, ...], labels: dict[str, str], exit_status: bool, as_json: bool) -> int:
    """Show the status until every benchmark has ended; without ids and labels, that of `latest`.

    The pauses grow from a second to a minute and are short again after a change. Watching changes nothing:
    Ctrl-C leaves the jobs as they are. With --json one document is printed at the end.
    """
    from nemo_gym.cli.job.status import status_of
    from nemo_gym.cli.submissions import several
    from nemo_gym.orchestration.status import poll as watching
    from nemo_gym.orchestration.status.machines import SubmissionMachines
    from nemo_gym.orchestration.status.report import to_json
    from nemo_runs.clock import SystemClock, utc_text

    records = several(ids or (() if labels else ("latest",)), labels)
    display = _Quiet() if as_json else _Redrawn() if sys.stdout.isatty() else _Lines()
    with SubmissionMachines() as machines:
        found = watching.watch(watching.looking(records, machines), display.show)
    if as_json:
        at = utc_text(SystemClock().seconds())
        click.echo(json.dumps(to_json(found, at=at), indent=2, ensure_ascii=False))
    return status_of(found) if exit_status else EXIT_DONE


class _Quiet:
    """Shows nothing."""

    def show(self, found: Sequence[SubmissionStatus]) -> None:
        """Nothing."""


class _Redrawn:
    """For a terminal: the whole status in place of the last one."""

    def show(self, found: Sequence[SubmissionStatus]) -> None:
        """Draw it from the top of a cleared screen."""
        from nemo_gym.cli.submissions import shows_colours, terminal_width
        from nemo_gym.orchestration.status.report_text import status_text

        drawn = status_text(found, terminal_width(), colour=shows_colours())
        click.echo(f"\x1b[H\x1b[2J{drawn}")


class _Lines:
    """For a log: a benchmark's line when its state, job or reason has changed."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], tuple[object, ...]] = {}

    def show(self, found: Sequence[SubmissionStatus]) -> None:
        """Print what is new."""
        from nemo_gym.orchestration.status.report_text import details, row

        for submission in found:
            for status in submission.benchmarks:
                key = (status.gym_job_id, status.benchmark)
                now = (status.state, status.job_id, status.reason)
                if self._shown.get(key) != now:
                    self._shown[key] = now
                    click.echo("  ".join(row(status)))
                    for line in details(status):
                        click.echo(f"  {line}")
        sys.stdout.flush()
