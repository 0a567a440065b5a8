"""`gym job adopt`: know a run directory again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from nemo_gym.cli.options import json_option


@click.command(short_help="Know a run directory again.")
@click.argument("run_dir", type=click.Path(path_type=Path))
@json_option
def adopt(run_dir: Path, as_json: bool) -> int:
    """Put a run directory into this machine's index of submissions: one of a colleague, of another machine
    with the same file system, or one that was moved.

    A directory whose record was lost gets a new one, made from its resolved config and its journals. A record
    that is there is never changed; one that is damaged, or written by a newer Gym, is refused.
    """
    from nemo_gym.orchestration import adopt as adoption

    def say(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    done = adoption.adopt(run_dir, now=datetime.now(UTC), say=say)
    if as_json:
        click.echo(json.dumps({"schema_version": adoption.SCHEMA_VERSION, **done.to_json()}, indent=2))
    else:
        click.echo(f"{done.gym_job_id}  {done.what}  {done.run_dir}")
    return 0
