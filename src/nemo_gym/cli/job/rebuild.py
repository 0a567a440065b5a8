"""`gym job rebuild`: make the index of submissions again from run directories."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemo_gym.cli.options import json_option
from nemo_gym.errors import EXIT_ERROR, GymError, UsageError

if TYPE_CHECKING:
    from nemo_gym.orchestration.records.adopt import AdoptedRun
    from nemo_gym.orchestration.records.adopt_remote import NotAdopted
    from nemo_gym.orchestration.records.index import Reporter
    from nemo_slurm.hosts import Host


@click.command(short_help="Make the index again from run directories.")
@click.option(
    "--output-path",
    "output_path",
    type=click.Path(path_type=Path),
    help="The folder that holds the run directories, `job.output_path` of the submissions.",
)
@click.option("--from-scheduler", is_flag=True, help="Find the run directories through your jobs on Slurm.")
@click.option("--hostname", metavar="HOST", help="The machine to look on, as `compute.<name>.hostname`.")
@json_option
def rebuild(output_path: Path | None, from_scheduler: bool, hostname: str | None, as_json: bool) -> int:
    """Adopt every run directory in a folder, or of every job that Slurm knows, as `gym job adopt` does.

    Each run that cannot be adopted is reported with its reason and left as it is; then the status is 1.
    The number of jobs whose run directory is gone is reported. A scheduler that does not answer is an error:
    then nobody knows whether there is anything.
    """
    if (output_path is None) == (not from_scheduler):
        raise UsageError("give either --output-path or --from-scheduler.")
    from nemo_gym.orchestration.records import adopt, adopt_remote
    from nemo_slurm.ssh import host_of

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    done, refused, gone = [], [], []
    with contextlib.closing(host_of(hostname)) as host:
        for each in _found(host, output_path, report):
            if isinstance(each, adopt_remote.NotAdopted) and each.gone:
                gone.append(each.run_dir)
            elif isinstance(each, adopt_remote.NotAdopted):
                report(f"passed over: {each.reason}")
                refused.append({"run_dir": each.run_dir, "reason": each.reason})
            else:
                done.append(each)
        where = str(output_path) if output_path is not None else "what the scheduler knows of your jobs"
        where = where if host.name is None else f"{where} on {host.name}"
    if gone:
        report(
            f"{len(gone)} run directories of known jobs are not there ({gone[0]}): removed, or not mounted."
        )
    if as_json:
        rows = [each.to_json() for each in done]
        document = {"schema_version": adopt.SCHEMA_VERSION, "adopted": rows, "refused": refused}
        document |= {"gone": gone} if from_scheduler else {}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for each in done:
            click.echo(f"{each.gym_job_id}  {each.what}  {each.run_dir}")
        if not done and not refused and not gone:
            report(f"there is no run directory in {where}.")
    return EXIT_ERROR if refused else 0


def _found(host: Host, output_path: Path | None, report: Reporter) -> Iterator[AdoptedRun | NotAdopted]:
    from nemo_gym.orchestration.records import adopt, adopt_remote

    now = datetime.now(UTC)
    if output_path is None:
        run_dirs, lost = adopt_remote.forgotten(host, report=report)
        yield from lost
        yield from adopted(host, run_dirs, now=now, report=report)
    elif host.name is None:
        run_dirs = [str(run_dir) for run_dir in adopt.run_dirs(output_path.absolute())]
        yield from adopted(host, run_dirs, now=now, report=report)
    else:
        yield from adopt_remote.of_parent(host, far_path(output_path), now=now, report=report)


def adopted(
    host: Host, run_dirs: Sequence[str], *, now: datetime, report: Reporter
) -> Iterator[AdoptedRun | NotAdopted]:
    """Adopt run directories of this machine or of another."""
    from nemo_gym.orchestration.records import adopt, adopt_remote

    if host.name is not None:
        yield from adopt_remote.of_folders(host, run_dirs, now=now, report=report)
        return
    for run_dir in run_dirs:
        if not Path(run_dir).is_dir():
            yield adopt_remote.NotAdopted(run_dir, f"there is no folder {run_dir}.", gone=True)
            continue
        try:
            yield adopt.adopt(Path(run_dir), now=now, report=report)
        except (GymError, OSError) as error:
            yield adopt_remote.NotAdopted(run_dir, str(error))


def far_path(path: Path) -> str:
    """A path of another machine; raises `UsageError` for one that depends on the current folder."""
    if not path.is_absolute():
        raise UsageError(f"{path}: give the absolute path on that machine.")
    return str(path)
