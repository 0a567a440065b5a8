"""`gym job rebuild`: make the index of submissions again from run directories."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from nemo_gym.cli.options import json_option
from nemo_gym.errors import EXIT_ERROR, GymError


@click.command(short_help="Make the index again from run directories.")
@click.option(
    "--output-path",
    "output_path",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder that holds the run directories, `job.output_path` of the submissions.",
)
@json_option
def rebuild(output_path: Path, as_json: bool) -> int:
    """Adopt every run directory in a folder, as `gym job adopt` does with one.

    What cannot be adopted is told one by one, with its reason, and left as it is; then the status is 1.
    """
    from nemo_gym.orchestration import adopt

    def say(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    done, refused = [], []
    for run_dir in adopt.run_dirs(output_path.absolute()):
        try:
            done.append(adopt.adopt(run_dir, now=datetime.now(UTC), say=say))
        except (GymError, OSError) as error:
            say(f"passed over: {error}")
            refused.append({"run_dir": str(run_dir), "reason": str(error)})
    if as_json:
        rows = [each.to_json() for each in done]
        document = {"schema_version": adopt.SCHEMA_VERSION, "adopted": rows, "refused": refused}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for each in done:
            click.echo(f"{each.gym_job_id}  {each.what}  {each.run_dir}")
        if not done and not refused:
            say(f"there is no run directory in {output_path}.")
    return EXIT_ERROR if refused else 0
