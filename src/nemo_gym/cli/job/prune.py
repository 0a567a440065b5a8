"""`gym job prune`: all old run directories that may go."""

from __future__ import annotations

import click

from nemo_gym.cli.labels import labels_option
from nemo_gym.cli.options import duration, json_option
from nemo_gym.errors import UsageError


@click.command(short_help="Delete old run directories; shows them first.")
@click.option(
    "--older-than",
    metavar="DURATION",
    callback=duration,
    help="Runs that were last heard of so long ago; `30-00` is thirty days.",
)
@labels_option("Submissions with this label; can be repeated.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the newest N of these.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@json_option
def prune(
    older_than: str | None,
    labels: dict[str, str],
    keep: int | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Delete the run directories of submissions that are old enough, here and on their own machines.

    What goes and what stays is shown first, with sizes and reasons. A run that may be at work stays, and so
    does one on another machine of which no whole copy was fetched. Say which by --older-than, --label or
    --keep. Without a terminal nothing is deleted unless --yes is given.
    """
    if older_than is None and keep is None and not labels:
        raise UsageError("say which runs go: --older-than DURATION, --label K=V or --keep N.")
    from nemo_gym.cli import removal
    from nemo_gym.cli.submissions import several
    from nemo_gym.orchestration.removal.candidates import older
    from nemo_runs.clock import SystemClock
    from nemo_runs.durations import parse_duration

    records = several([], labels)[keep or 0 :]
    with removal.open_hosts() as hosts:
        found = removal.look(records, hosts)
        if older_than is not None:
            seconds = parse_duration(older_than, where="--older-than")
            found = older(found, now=SystemClock().seconds(), seconds=seconds)
        removal.remove(
            [candidate for candidate in found if not candidate.refusal],
            [candidate for candidate in found if candidate.refusal],
            hosts,
            yes=yes,
            dry_run=dry_run,
            as_json=as_json,
        )
    return 0
