"""`gym job adopt`: know a run directory again."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path

import click

from nemo_gym.cli.options import json_option


@click.command(short_help="Know a run directory again.")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option(
    "--hostname", metavar="HOST", help="The machine that RUN_DIR is on, as `compute.<name>.hostname`."
)
@json_option
def adopt(run_dir: Path, hostname: str | None, as_json: bool) -> int:
    """Put a run directory into this machine's index of submissions: one of a colleague, of another machine
    (with `--hostname` unless it has the same file system), or one that was moved.

    A directory whose record was lost gets a new one, made from its resolved config and its journals. A record
    that is there is never changed; one that is damaged, or written by a newer Gym, is refused.
    """
    from nemo_gym.cli.job.rebuild import adopted, far_path
    from nemo_gym.errors import GymError
    from nemo_gym.orchestration.records import adopt as adoption
    from nemo_gym.orchestration.records import adopt_remote
    from nemo_slurm.ssh import host_of

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    now = datetime.now(UTC)
    with contextlib.closing(host_of(hostname)) as host:
        if host.name is None:
            done = adoption.adopt(run_dir, now=now, report=report)
        else:
            (found,) = adopted(host, [far_path(run_dir)], now=now, report=report)
            if isinstance(found, adopt_remote.NotAdopted):
                raise GymError(found.reason)
            done = found
    if as_json:
        click.echo(json.dumps({"schema_version": adoption.SCHEMA_VERSION, **done.to_json()}, indent=2))
    else:
        click.echo(f"{done.gym_job_id}  {done.what}  {done.run_dir}")
    return 0
