"""The files of run directories, here or on another machine: many small ones in one look, single ones too.

`RunFiles.look` is what every question about a submission begins with: it reads the small files of all
benchmarks at once, on another machine by one script over one connection.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from nemo_gym.errors import DataError
from nemo_gym.job_paths import OLD_SHELL, JobPaths, RunPaths
from nemo_runs.durable import disk, files
from nemo_slurm.errors import NoSuchPathError, SlurmError
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import quoted_header, remote_script

LARGEST = 60 * 1024
"""Bytes; a larger file does not belong to the small ones."""

UNREAD = "-"
HASHED = 16 * 1024 * 1024
"""Bytes; larger files are compared by the jobs that read them, not at every look."""
_ESCAPED = re.compile(r"\\(.)")

_JOB = JobPaths(Path())
_IN_JOB_DIR = tuple(
    path.name for path in (_JOB.chain, _JOB.accumulated_walltime, _JOB.infra_retries, _JOB.cancelled)
)
_IN_ARTIFACTS = (_JOB.rollouts.progress.name, _JOB.rollouts.coverage.name)
_FOLDERS = (_JOB.links.name, _JOB.resubmissions.name)
_SUBMISSION = RunPaths(Path()).submission.name
_SEALED = (_JOB.sealed.name, OLD_SHELL, _JOB.inputs.name, _JOB.run_config.name)
_FILE = 0o644


@dataclass(frozen=True, slots=True)
class FolderLook:
    """The small files of some folders, as they were at one moment."""

    now: float
    """UTC seconds by the clock of the machine that holds them."""
    folders: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)
    """Folder of a benchmark -> path inside it -> content. A folder that does not exist is not named."""
    submissions: Mapping[Path, str] = field(default_factory=dict)
    """Run directory -> what was submitted, where that is on another machine and can be compared."""
    digests: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)
    """Folder of a benchmark -> path inside it -> SHA-256 in hexadecimal of the file as it is there.

    Of the job script without its secrets. `UNREAD`: it is there, and too large, or was not written to since.
    Beside `submissions` alone.
    """


class RunFiles(Protocol):
    """Reads and writes files of run directories; paths are absolute on the machine that holds them.

    Where that machine does not answer, every method raises `nemo_slurm.errors.NotReachableError`: nothing
    was learnt then.
    """

    @property
    def label(self) -> str:
        """The machine, for messages."""
        ...

    def look(self, job_dirs: Sequence[Path]) -> FolderLook:
        """Read the small files of many benchmarks' folders."""
        ...

    def read(self, path: Path, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Read a file from an offset on, at most ``limit`` bytes; raises `FileNotFoundError`."""
        ...

    def sizes(self, folder: Path) -> dict[str, int]:
        """Names and sizes of the files in a folder; none where there is no folder."""
        ...

    def claim(self, folder: Path) -> bool:
        """Make a folder; false when it was there already. Exactly one of several callers gets true."""
        ...

    def unclaim(self, folder: Path) -> None:
        """Remove a claimed folder with the small files in it, as far as that can be done."""
        ...

    def write(self, path: Path, data: bytes) -> None:
        """Write a small file whole or not at all, in the place of one that is there."""
        ...

    def append(self, path: Path, line: bytes) -> None:
        """Append one line to a journal."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is as it should be."""
        ...


class LocalRunFiles:
    """Files of this machine."""

    label = "this machine"

    def look(self, job_dirs: Sequence[Path]) -> FolderLook:
        """See `RunFiles.look`."""
        found = {folder: dict(_small_files(folder)) for folder in job_dirs if folder.is_dir()}
        return FolderLook(time.time(), found)

    def read(self, path: Path, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `RunFiles.read`."""
        with open(path, "rb", opener=disk.regular) as file:
            file.seek(offset)
            return file.read(-1 if limit is None else limit)

    def sizes(self, folder: Path) -> dict[str, int]:
        """See `RunFiles.sizes`."""
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        return {}

    def claim(self, folder: Path) -> bool:
        """See `RunFiles.claim`."""
        folder.parent.mkdir(exist_ok=True)
        try:
            folder.mkdir()
        except FileExistsError:
            return False
        return True

    def unclaim(self, folder: Path) -> None:
        """See `RunFiles.unclaim`."""
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                (folder / name).unlink()
            folder.rmdir()

    def write(self, path: Path, data: bytes) -> None:
        """See `RunFiles.write`."""
        files.replace_file(path, data, mode=_FILE)

    def append(self, path: Path, line: bytes) -> None:
        """See `RunFiles.append`."""
        with disk.full_disk_named(path), path.open("ab", buffering=0) as file:
            file.write(line)

    def remove(self, path: Path) -> None:
        """See `RunFiles.remove`."""
        path.unlink(missing_ok=True)


def _small_files(job_dir: Path) -> Iterator[tuple[str, str]]:
    names = [*_IN_JOB_DIR, *(f"{_JOB.artifacts.name}/{name}" for name in _IN_ARTIFACTS)]
    for parent in _FOLDERS:
        for folder in _names(job_dir / parent):
            names += [f"{parent}/{folder}/{name}" for name in _names(job_dir / parent / folder)]
    for name in names:
        with contextlib.suppress(OSError), open(job_dir / name, "rb", opener=disk.regular) as file:
            data = file.read(LARGEST + 1)
            if len(data) <= LARGEST:
                yield name, data.decode("utf-8", "replace")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


class HostRunFiles:
    """Files of another machine; each method is one script there."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def label(self) -> str:
        """See `RunFiles.label`."""
        return self._host.label

    def look(self, job_dirs: Sequence[Path]) -> FolderLook:
        """See `RunFiles.look`. The answer is one archive: sizes, names and contents stay what they are."""
        if not job_dirs:
            return FolderLook(time.time())
        done = self._host.run(_look_script(job_dirs), timeout=120)
        head, _, archive = done.stdout.partition("\n\n")
        lines = head.splitlines()
        if done.status or not lines or not lines[0].isdigit():
            raise DataError(f"{self.label}: the run directories could not be read ({done.stderr.strip()}).")
        missing = {int(line) for line in lines[1:] if line.isdigit()}
        found: dict[Path, dict[str, str]] = {
            folder: {} for number, folder in enumerate(job_dirs) if number not in missing
        }
        parents: dict[Path, dict[str, str]] = {folder.parent: {} for folder in found}
        for folder, name, content in _unpacked(archive.encode("utf-8", "surrogateescape"), found | parents):
            (found[folder] if folder in found else parents[folder])[name] = content
        digests: dict[Path, dict[str, str]] = {folder: {} for folder in found}
        for folder, name, digest in _digests(lines[1:], job_dirs, found):
            digests[folder][name] = digest
        submissions = {
            folder: texts[_SUBMISSION] for folder, texts in parents.items() if _SUBMISSION in texts
        }
        return FolderLook(float(lines[0]), found, submissions, digests)

    def read(self, path: Path, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `RunFiles.read`."""
        try:
            return self._host.read(str(path), offset=offset, limit=limit)
        except NoSuchPathError:
            raise FileNotFoundError(2, f"no such file on {self.label}", str(path)) from None

    def sizes(self, folder: Path) -> dict[str, int]:
        """See `RunFiles.sizes`."""
        done = self._host.run(remote_script(__package__, "sizes", folder=str(folder)), timeout=60)
        rows = (line.partition(" ") for line in done.stdout.splitlines())
        return {name: int(size) for size, _, name in rows if size.isdigit()}

    def claim(self, folder: Path) -> bool:
        """See `RunFiles.claim`."""
        script = remote_script(__package__, "claim", folder=str(folder), parent=str(folder.parent))
        done = self._host.run(script)
        if done.status and not self._host.exists(str(folder)):
            raise DataError(f"{folder} on {self.label} cannot be made ({done.stderr.strip()}).")
        return done.status == 0

    def unclaim(self, folder: Path) -> None:
        """See `RunFiles.unclaim`."""
        with contextlib.suppress(SlurmError):
            self._host.run(remote_script(__package__, "unclaim", folder=str(folder)))

    def write(self, path: Path, data: bytes) -> None:
        """See `RunFiles.write`."""
        self._host.write(str(path), data, mode=_FILE)

    def append(self, path: Path, line: bytes) -> None:
        """See `RunFiles.append`."""
        text = line.decode("utf-8").rstrip("\n")
        self._change(remote_script(__package__, "append", path=str(path), line=text), path)

    def remove(self, path: Path) -> None:
        """See `RunFiles.remove`."""
        self._change(f'{quoted_header(path=str(path))}rm -f -- "$path"', path)

    def _change(self, script: str, path: Path) -> None:
        done = self._host.run(script)
        if done.status:
            raise DataError(f"{path} on {self.label} cannot be changed ({done.stderr.strip()}).")


def run_files(host: Host) -> RunFiles:
    """The files of a host."""
    return LocalRunFiles() if host.name is None else HostRunFiles(host)


def _look_script(job_dirs: Sequence[Path]) -> str:
    """Clock, numbers of missing folders, digests of files, an empty line, an archive of small files."""
    return remote_script(
        __package__,
        "look",
        folders=[str(folder) for folder in job_dirs],
        submissions=list(dict.fromkeys(str(folder.parent / _SUBMISSION) for folder in job_dirs)),
        submission=_SUBMISSION,
        unread=UNREAD,
        smallest=LARGEST // 1024,
        hashed=HASHED // 1024,
        script=_JOB.script.name,
        sealed=_SEALED,
        kept=_IN_JOB_DIR,
        artifacts=_JOB.artifacts.name,
        logs=_JOB.logs.name,
        results=_IN_ARTIFACTS,
        parents=_FOLDERS,
    )


def _digests(
    lines: Sequence[str], job_dirs: Sequence[Path], folders: Mapping[Path, object]
) -> Iterator[tuple[Path, str, str]]:
    """Folder, path inside it and digest of every file in what ``sha256sum`` says."""
    for line in lines:
        digest, _, path = line.removeprefix("\\").partition("  ")
        if path.startswith("@"):
            yield job_dirs[int(path[1:])], _JOB.script.name, digest
            continue
        if line.startswith("\\"):
            path = _ESCAPED.sub(lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), path)
        place = _place(path, folders) if path else None
        if place is not None:
            yield *place, digest


def _unpacked(archive: bytes, folders: Mapping[Path, object]) -> Iterator[tuple[Path, str, str]]:
    """Folder, path inside it and content of every file of an archive."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
            for member in packed:
                content = packed.extractfile(member)
                place = _place(member.name, folders)
                if content is not None and place is not None:
                    yield *place, content.read().decode("utf-8", "replace")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"the small files of the run directories arrived damaged ({error}).") from error


def _place(path: str, folders: Mapping[Path, object]) -> tuple[Path, str] | None:
    """The benchmark's folder that a path lies in, and the rest of the path."""
    folder, inside = path, ""
    while folder not in ("", "/"):
        folder, name = posixpath.split(folder)
        inside = f"{name}/{inside}" if inside else name
        if Path(folder) in folders:
            return Path(folder), inside
    return None
