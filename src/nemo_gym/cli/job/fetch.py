"""`gym job fetch`: results and records of a submission, copied to this machine."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option
from nemo_runs.counts import counted


def _shown(folder: Path) -> str:
    """A folder as an argument of the next command."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # what was copied is there, whatever became of the current folder
        return shlex.quote(str(folder))
    return shlex.quote(str(folder.relative_to(here) if folder.is_relative_to(here) else folder))


@click.command(short_help="Copy results and records to this machine.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    help="The folder to copy into; one named after the id, in the current folder, unless given.",
)
@click.option("--logs", is_flag=True, help="Copy logs too.")
@json_option
def fetch(name: str, folder: Path | None, logs: bool, as_json: bool) -> int:
    """Copy the results and records of a submission into a folder here, without captures of model calls and
    without job scripts, which may hold secrets.

    A copy that broke off goes on where it stopped, and a copy of an unfinished run is brought up to date.
    Every file is compared by its digest. Nothing else in the folder is ever overwritten. The folder can be
    given to `gym job verify`, `gym job bill`, `gym job results` and `gym eval compare`.
    """
    from nemo_gym.orchestration.records import index
    from nemo_gym.orchestration.records.fetch import fetch as copy
    from nemo_slurm.ssh import host_of

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    record = index.find(name, report=report)
    target = (folder or Path(record.gym_job_id)).absolute()
    host = host_of(record.hostname)
    try:
        found = copy(record, host, target, logs=logs)
    finally:
        host.close()
    index.note_fetched(record.gym_job_id, target, report=report)
    if found.changing:
        report(
            f"{counted(len(found.changing), 'file was', 'files were')} written to meanwhile "
            f"({', '.join(found.changing[:3])}); "
            "fetch again when the run has ended."
        )
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        click.echo(
            f"{found.folder}: {counted(found.files, 'file')}, {counted(found.size, 'byte')}; "
            f"{len(found.new):,} copied now "
            f"from {found.source}"
        )
        click.echo(f"Results: gym job results {_shown(found.folder)}")
    return 0
