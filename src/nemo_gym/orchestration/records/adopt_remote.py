"""Know run directories of another machine again, and find forgotten ones through the scheduler.

What describes a run directory comes here in one archive a machine; the rest is as for a directory of this
one.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from nemo_gym.errors import DataError, GymError
from nemo_gym.job_paths import JobPaths, RunPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import adopt
from nemo_gym.orchestration.records.adopt import AdoptedRun
from nemo_gym.orchestration.records.index import SHARED, Reporter
from nemo_slurm import tracing
from nemo_slurm.calls import HostCalls
from nemo_slurm.errors import SlurmError
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import remote_script

_SLOW: Final = 600.0
_NO_FOLDER: Final = 44
_TOKEN: Final = re.compile(
    r"(?<![\w./-])(?P<id>gym-job-\d{8}T\d{6}Z-[0-9a-f]{6})/(?P<benchmark>[\w.-]+)/(?:again-\d+-)?\d+(?![\w./-])"
)
"""A site may have put words of its own around it."""


@dataclass(frozen=True, slots=True)
class NotAdopted:
    """A run directory that was not adopted, with the reason."""

    run_dir: str
    reason: str
    gone: bool = False
    """There is no such folder."""


@dataclass(slots=True)
class _Brought:
    """What describes one run directory, in a folder here of the same name."""

    folder: Path
    there: str
    owner: str = ""
    unreadable: bool = False


def of_parent(
    host: Host, output_path: str, *, now: datetime, report: Reporter
) -> Iterator[AdoptedRun | NotAdopted]:
    """Adopt all run directories in a folder of another machine. Raises `GymError` when there is none such."""
    yield from _adopted(host, output_path, (), now, report)


def of_folders(
    host: Host, run_dirs: Sequence[str], *, now: datetime, report: Reporter
) -> Iterator[AdoptedRun | NotAdopted]:
    """Adopt run directories of another machine; those that are not there are refused."""
    if run_dirs:
        yield from _adopted(host, "", run_dirs, now, report)


def forgotten(host: Host, *, report: Reporter) -> tuple[list[str], list[NotAdopted]]:
    """Run directories of this user's jobs that the scheduler knows, and jobs that name none.

    Raises `SlurmError` when the scheduler is silent; also when half of it is and the other half knows
    nothing, since silence does not mean that there is nothing.
    """
    user = host.run("id -un").stdout.strip()
    found = tracing.trace(HostCalls(host), user)
    silent = [text for text in (found.controller, found.accounting) if text]
    run_dirs: dict[str, str] = {}
    lost: dict[str, NotAdopted] = {}
    for job in found.jobs:
        named = _TOKEN.search(job.token)
        if named is None:
            continue
        gym_job_id, folder = named["id"], posixpath.normpath(job.folder)
        if posixpath.basename(folder) == named["benchmark"]:
            folder = posixpath.dirname(folder)
        if posixpath.basename(folder) == gym_job_id:
            run_dirs.setdefault(gym_job_id, folder)
        else:
            reason = (
                f"job {job.id} of {gym_job_id} was submitted in {job.folder}, which is not a folder of it"
            )
            lost[gym_job_id] = NotAdopted(job.folder, reason)
    if silent and not run_dirs and not lost:
        raise GymError(f"a part of the scheduler on {host.label} is silent, so nobody knows: {silent[0]}")
    if silent:
        report(f"a part of the scheduler on {host.label} is silent, there may be more runs: {silent[0]}")
    refused = [each for gym_job_id, each in lost.items() if gym_job_id not in run_dirs]
    return [run_dirs[gym_job_id] for gym_job_id in sorted(run_dirs)], refused


def _adopted(
    host: Host, parent: str, wanted: Sequence[str], now: datetime, report: Reporter
) -> Iterator[AdoptedRun | NotAdopted]:
    run, job = RunPaths(Path()), JobPaths(Path())
    script = remote_script(
        __package__,
        "report_runs",
        parent=parent,
        folders=wanted,
        record=run.record.name,
        fetched=run.fetched.name,
        substitutes=[run.resolved_config.name, run.submission.name, run.fetched.name],
        signs=[job.events.name, job.chain.name],
        links=job.links.name,
    )
    done = host.run(script, timeout=_SLOW)
    if done.status == _NO_FOLDER:
        raise GymError(
            f"there is no such folder on {host.label}; give the output_path of the submissions there."
        )
    unreadable, _, archive = (
        done.stdout.partition("\n\n") if done.stdout[:1] != "\n" else ("", "", done.stdout[1:])
    )
    with tempfile.TemporaryDirectory(prefix="gym-") as base:
        try:
            found = _unpacked(archive.encode("utf-8", "surrogateescape"), Path(base))
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(
                f"what {host.label} reports about its run directories is damaged ({error})."
            ) from error
        for name in unreadable.splitlines():
            if name in found:
                found[name].unreadable = True
        for name in wanted:
            if name not in found:
                yield NotAdopted(name, f"there is no folder {name} on {host.label}.", gone=True)
        for brought in found.values():
            yield _one(host, brought, now, report)


def _unpacked(archive: bytes, base: Path) -> dict[str, _Brought]:
    """Every directory by its name there. Only plain files and folders below one are made."""
    found: dict[str, _Brought] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        for member in packed:
            name = member.name.rstrip("/")
            root = next((each for each in found if name.startswith(f"{each}/")), None)
            if root is None:
                folder = base / str(len(found)) / posixpath.basename(name)
                folder.mkdir(parents=True)
                found[name] = _Brought(folder, name, owner=member.uname)
                continue
            inside = name.removeprefix(f"{root}/")
            content = packed.extractfile(member) if member.isfile() else None
            if ".." in inside.split("/") or not (member.isdir() or content):
                continue
            path = found[root].folder / inside
            (path if content is None else path.parent).mkdir(parents=True, exist_ok=True)
            if content is not None:
                path.write_bytes(content.read())
            os.utime(path, (member.mtime, member.mtime))
    return found


def _one(host: Host, brought: _Brought, now: datetime, report: Reporter) -> AdoptedRun | NotAdopted:
    try:
        return _adopt(host, brought, now, report)
    except (GymError, SlurmError) as error:
        here, there = str(brought.folder), f"{host.label}:{brought.there}"
        return NotAdopted(brought.there, str(error).replace(here, there))


def _adopt(host: Host, brought: _Brought, now: datetime, report: Reporter) -> AdoptedRun:
    paths = RunPaths(brought.folder)
    if brought.unreadable:
        raise DataError(f"{paths.record} may not be read.")
    if paths.fetched.exists():
        raise GymError(f"{brought.folder} is a fetched copy, not a run directory.")
    if paths.record.exists():
        return adopt.add(_there(adopt.read(paths.record), host, brought), "indexed")
    record = _there(adopt.made_again(brought.folder, now=now), host, brought)
    record = replace(record, submitted_by=brought.owner)
    there = RunPaths(Path(brought.there)).record
    try:
        if not host.exists(str(there)):
            host.write(str(there), record.dumps(), mode=SHARED)
    except SlurmError as error:
        report(f"{there} could not be written ({error}): the record is in the local index alone.")
    return adopt.add(record, "made")


def _there(record: SubmissionRecord, host: Host, brought: _Brought) -> SubmissionRecord:
    """The record of a run directory that is on another machine."""
    paths = RunPaths(Path(brought.there))
    entries = tuple(
        replace(entry, job_dir=str(paths.job(entry.benchmark).job_dir)) for entry in record.benchmarks
    )
    return replace(record, run_dir=brought.there, hostname=host.name, benchmarks=entries)
