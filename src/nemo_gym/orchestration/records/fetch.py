"""Copy a submission's results and records to this machine, without captures of model calls or secrets.

The copy can be taken up where it broke off and brought up to date. Every file is compared by its digest with
the one that it came from. What is in the folder already and is not an earlier copy of the same file is never
overwritten.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import GymError
from nemo_gym.job_paths import MODEL_CALLS, OLD_SHELL, JobPaths, RunPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import index
from nemo_gym.orchestration.records.fetch_ledger import SCHEMA_VERSION, Ledger, mark_of
from nemo_runs.durable import disk
from nemo_slurm.errors import ChangedError, CommandFailedError, NoSuchPathError
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import quoted_header, remote_script
from nemo_slurm.transfer import RemoteFile, Wanted, everything, listing

_JOB: Final = JobPaths(Path())
_CAPTURES: Final = frozenset({MODEL_CALLS, _JOB.otel.name, _JOB.sealed.name, OLD_SHELL, "__pycache__"})
_CLAIMS: Final = (_JOB.rollouts.lock.suffix, RunPaths(Path()).slots.name)
_PARTS: Final = (_JOB.artifacts, _JOB.config, _JOB.links, _JOB.logs, _JOB.resubmissions)
_NAMED: Final = 3
_TRIES: Final = 5
_DIGESTS_AT_ONCE: Final = 2000
_SLOW: Final = 3600.0
"""Seconds for which the host may sum files up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What is in the folder now."""

    gym_job_id: str
    folder: Path
    source: str
    files: int
    size: int
    """Bytes of all of them."""
    new: list[str]
    """Copied now: they were missing or had changed."""
    changing: list[str]
    """Were written to while they were copied: what is here is an earlier or a mixed state."""

    def to_json(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "gym_job_id": self.gym_job_id,
            "folder": str(self.folder),
            "source": self.source,
            "files": self.files,
            "bytes": self.size,
            "new": self.new,
            "changing": self.changing,
        }


def is_wanted(path: str, *, logs: bool) -> bool:
    """Whether a file of a run directory is fetched.

    Left out are captures of model calls, telemetry, scripts (a job script may hold secrets), claims, what is
    half-written or superseded and, unless asked for, logs.
    """
    *folders, name = path.split("/")
    if name.endswith((".sh", ".new")) or name.startswith((".tmp-", ".incoming.")):
        return False
    if ".superseded-" in name or (name.startswith(".") and ".part-" in name):
        return False
    if any(folder in _CAPTURES or folder.endswith(_CLAIMS) for folder in folders):
        return False
    return logs or not (name.endswith((".out", ".log")) or _JOB.logs.name in folders)


def fetch(
    record: SubmissionRecord, host: Host, folder: Path, *, logs: bool, only: Wanted = everything
) -> Fetched:
    """Copy what is wanted of a run directory into ``folder``; ``only`` narrows it by relative path.

    Raises `GymError` before anything is copied when the folder holds something else under one of the names,
    and `nemo_slurm.errors.SlurmError` when the host does not answer: what has arrived stays, and the next
    call goes on from there.
    """
    _refuse_itself(record, host, folder)
    source = posixpath.normpath(record.run_dir)
    through = _links(record)
    remote = {
        path: file
        for path, file in _listing(host, source, through).items()
        if only(path) and is_wanted(path, logs=logs)
    }
    if not remote:
        raise GymError(f"there is nothing to fetch in {source} on {host.label}.")
    ledger = Ledger.load(folder, record)
    unproven = _compare(host, source, folder, remote, ledger)
    new = _copy(host, source, folder, remote, through, ledger)
    doubtful = [remote[path] for path in sorted({*new, *unproven})]
    changing = _prove(host, source, folder, doubtful, ledger, through)
    here = [folder / path for path in remote if (folder / path).is_file()]
    return Fetched(
        gym_job_id=record.gym_job_id,
        folder=folder,
        source=f"{host.label}:{source}",
        files=len(here),
        size=sum(path.stat().st_size for path in here),
        new=new,
        changing=changing,
    )


def _links(record: SubmissionRecord) -> list[str]:
    """Folders of a run that somebody may have moved to another disk and linked; no other link is followed."""
    models = dict.fromkeys(entry.model for entry in record.benchmarks if entry.model is not None)
    folders = [*(entry.benchmark for entry in record.benchmarks), *models]
    return [*folders, *(f"{folder}/{part.name}" for folder in folders for part in _PARTS)]


def _refuse_itself(record: SubmissionRecord, host: Host, folder: Path) -> None:
    if _is_same(host, record.run_dir, folder):
        raise GymError(f"{folder} is the run directory itself: it is here already.")
    if folder.exists() and not folder.is_dir():
        raise GymError(f"{folder} is a file; choose a folder with --to.")
    there = RunPaths(folder).record
    if there.is_file():
        other = index.read_record(there).gym_job_id
        if other != record.gym_job_id:
            raise GymError(f"{folder} holds {other}, another submission; choose another folder with --to.")


def _is_same(host: Host, run_dir: str, folder: Path) -> bool:
    """Whether a folder is the run directory, over a file system that the host has mounted too."""
    if host.name is None:
        return folder.resolve() == Path(run_dir).resolve()
    there = RunPaths(folder).record
    if not there.is_file():
        return False
    mine = there.stat()
    record = quoted_header(record=str(RunPaths(Path(run_dir)).record))
    theirs = host.run(f"{record}stat -c '%i %s %Y' -- \"$record\"").stdout
    return theirs.split() == [str(mine.st_ino), str(mine.st_size), str(int(mine.st_mtime))]


def _listing(host: Host, folder: str, through: Sequence[str]) -> dict[str, RemoteFile]:
    try:
        found = listing(host, folder, through=through)
    except NoSuchPathError:
        raise GymError(f"there is no folder {folder} on {host.label} any more.") from None
    except CommandFailedError as error:
        said = error.text or error.status
        raise GymError(f"{folder} on {host.label} cannot be listed ({said}).") from error
    return {file.path: file for file in found}


def _copy(
    host: Host,
    source: str,
    folder: Path,
    remote: Mapping[str, RemoteFile],
    through: Sequence[str],
    ledger: Ledger,
) -> list[str]:
    """Copy what is new; what changes in that moment is copied again, a few times. The paths that are new."""
    before = {path: mark_of(folder / path) for path in remote}
    for left in reversed(range(_TRIES)):
        try:
            host.copy_out(
                source, folder, wanted=lambda path: path in remote, expect=ledger.expect, through=through
            )
        except ChangedError:
            if not left:
                raise
        else:
            break
    return sorted(path for path in remote if mark_of(folder / path) not in (None, before[path]))


def _compare(
    host: Host, source: str, folder: Path, remote: dict[str, RemoteFile], ledger: Ledger
) -> list[str]:
    """The files that are here already and still have to be proven; refuses to go on over a foreign one.

    A foreign file is one that no ledger records and that is not the beginning of its original.
    """
    here = [path for path in sorted(remote) if (folder / path).is_file()]
    foreign = [path for path in here if not ledger.is_recorded(path, folder / path)]
    sizes = {path: (folder / path).stat().st_size for path in foreign}
    theirs = _digests(host, source, sizes)
    other = [path for path in foreign if _sha256(folder / path) != theirs.get(path)]
    if other:
        shown = ", ".join(other[:_NAMED]) + (
            f" and {len(other) - _NAMED} more" if len(other) > _NAMED else ""
        )
        raise GymError(
            f"{folder} has files with other content than the run ({shown}); nothing was copied, since "
            "nothing is overwritten: choose another folder with --to."
        )
    return [path for path in here if not ledger.proven(path, folder / path)]


def _prove(
    host: Host,
    source: str,
    folder: Path,
    doubtful: Sequence[RemoteFile],
    ledger: Ledger,
    through: Sequence[str],
) -> list[str]:
    """Compare digests. What differs has changed meanwhile, or arrived damaged and is removed again."""
    sizes = {file.path: (folder / file.path).stat().st_size for file in doubtful}
    theirs = _digests(host, source, sizes)
    ours = {path: _sha256(folder / path) for path in sizes}
    differ = [file for file in doubtful if ours[file.path] != theirs.get(file.path)]
    now = _listing(host, source, through) if differ else {}
    damaged = [file.path for file in differ if now.get(file.path) == file]
    for file in doubtful:
        if file.path in damaged:
            (folder / file.path).unlink()
        else:
            ledger.note(file.path, folder / file.path, None if file in differ else ours[file.path])
    ledger.save()
    if damaged:
        raise GymError(
            f"{', '.join(damaged[:_NAMED])} arrived damaged and was removed again: fetch once more."
        )
    return [file.path for file in differ]


def _digests(host: Host, folder: str, sizes: dict[str, int]) -> dict[str, str]:
    """SHA-256 of the first bytes of files on the host; a file that is gone or shorter has none."""
    found: dict[str, str] = {}
    names = sorted(sizes)
    for at in range(0, len(names), _DIGESTS_AT_ONCE):
        some = names[at : at + _DIGESTS_AT_ONCE]
        counts = [sizes[name] for name in some]
        script = remote_script(__package__, "digests", folder=folder, paths=some, counts=counts)
        done = host.run(script, timeout=_SLOW)
        lines = done.stdout.splitlines()
        if done.status or len(lines) != len(some):
            raise GymError(f"{folder} on {host.label} cannot be summed up ({done.stderr.strip()}).")
        found |= {name: line.split()[0] for name, line in zip(some, lines, strict=True)}
    return found


def _sha256(path: Path) -> str:
    summed = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(disk.CHUNK):
            summed.update(block)
    return summed.hexdigest()
