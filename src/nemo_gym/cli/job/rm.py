"""`gym job rm`: run directories that are not wanted any more."""

from __future__ import annotations

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option


@click.command(short_help="Delete run directories that have ended.")
@click.argument("ids", nargs=-1, required=True, shell_complete=completing.run_ids)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@json_option
def rm(ids: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete the run directories of submissions, here or on their own machine, and forget them.

    What goes is shown first, with its size. A run that may be at work is refused, and so is one on another
    machine of which no whole copy was fetched; then nothing is deleted, and the exit status is 5. Copies that
    were fetched stay. IDS are full ids, unique beginnings of ids, `latest`, or run directories.
    """
    from nemo_gym.cli import removal
    from nemo_gym.errors import RefusedError

    records = removal.named(ids)
    with removal.open_hosts() as hosts:
        found = removal.look(records, hosts)
        refused = [candidate for candidate in found if candidate.refusal]
        if refused:
            reasons = "; ".join(f"{one.record.gym_job_id}: {one.refusal}" for one in refused)
            raise RefusedError(f"nothing was deleted. {reasons}.")
        removal.remove(found, [], hosts, yes=yes, dry_run=dry_run, as_json=as_json)
    return 0
