"""Files to the cluster, each with its digest: what is there already is not sent, what broke off goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from nemo_helix_server.executors.environment_digest import content_digest
from nemo_helix_server.executors.slurm.on_cluster import arrivals, folders
from nemo_runs.durable.files import replace_file
from nemo_slurm.channel import new_mark, wrap
from nemo_slurm.errors import CommandFailedError, SlurmError
from nemo_slurm.hosts import BashHost, Host
from nemo_slurm.remote_script import remote_script

_BLOCK = 1 << 20
_SLOWEST = 50_000
"""Bytes a second below which a transfer counts as broken."""
_LARGE = 1 << 20
"""Bytes from which a file is worth keeping for other jobs."""
_TRIES = 4


class StagingError(SlurmError):
    """Files did not arrive as they were sent."""


class Ask(Protocol):
    """Asks `nemo_helix_server.executors.slurm.on_cluster.requests`."""

    def __call__(self, request: Mapping[str, Any], *, timeout: float = ...) -> dict[str, Any]:
        """The answer."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file that is to be on the cluster."""

    path: str
    """Relative to the folder."""
    size: int
    mode: int
    sha256: str
    shared: bool = False
    """Whether other jobs may have the same file: it is the same for all of them, and nobody writes to it."""


def files_of(
    folder: Path,
    ledger: Path,
    wanted: Callable[[str], bool],
    *,
    may_follow: Callable[[Path], bool] = lambda _target: True,
    constant: Callable[[str], bool] = lambda _name: False,
) -> list[LocalFile]:
    """The files below a folder with their digests; what ``ledger`` knows unchanged is not read again.

    Links are followed, since a model of this machine is linked, not copied: to where ``may_follow`` allows.
    ``constant`` names the files that nobody writes to any more.
    """
    known = arrivals.read_ledger(ledger)
    found, noted = [], {}
    for path in sorted(_plain(folder, may_follow)):
        name = path.relative_to(folder).as_posix()
        if not wanted(name):
            continue
        status = path.stat()
        mark = [status.st_size, status.st_mtime_ns, status.st_ino]
        before = known.get(name)
        sha = before[1] if before and before[0] == mark else content_digest(path)
        noted[name] = [mark, sha]
        shared = status.st_size >= _LARGE and constant(name)
        found.append(LocalFile(name, status.st_size, status.st_mode & 0o777, sha, shared))
    if noted != known:
        replace_file(ledger, json.dumps(noted).encode(), mode=0o600, durable=False)
    return found


def push(
    host: Host,
    ask: Ask,
    folder: Path,
    files: Sequence[LocalFile],
    remote: PurePosixPath,
    cache: PurePosixPath,
) -> int:
    """Bring files into a folder of the cluster; how many had to be sent. Raises `SlurmError`.

    A file has its name there only when all of it is there and its digest is right. Shared ones are linked
    from ``cache`` where they are in it, and are put there.
    """
    by_path = {file.path: file for file in files}
    listed = [[file.path, file.size, file.sha256, file.shared] for file in files]
    where = {"folder": str(remote), "cache": str(cache)}
    sent: set[str] = set()
    for _ in range(_TRIES):
        answer = ask({"op": "missing", "files": listed, **where}, timeout=600)
        missing = _once([(by_path[path], offset) for path, offset in answer["missing"]])
        if not missing:
            return len(sent)
        for file, offset in missing:
            _send(host, folder / file.path, file, offset, remote)
            sent.add(file.path)
        arrived = [[file.path, file.size, file.sha256, file.mode, file.shared] for file, _ in missing]
        ask({"op": "settle", "files": arrived, **where}, timeout=3600)
    raise StagingError(
        f"{folder}: files change while they are copied to {remote} on {host.label}; tried {_TRIES} times"
    )


def _once(missing: list[tuple[LocalFile, int]]) -> list[tuple[LocalFile, int]]:
    """The same without further copies of a shared file, which are linked the next time."""
    seen: set[str] = set()
    found = []
    for file, offset in missing:
        if not file.shared or file.sha256 not in seen:
            found.append((file, offset))
        seen.add(file.sha256)
    return found


def _send(host: Host, local: Path, file: LocalFile, offset: int, remote: PurePosixPath) -> None:
    target = remote / file.path
    part = target.with_name(folders.part_name(target.name, file.sha256))
    script = remote_script(__package__, "append", part=str(part), offset=offset)
    mark = new_mark()
    assert isinstance(host, BashHost)

    def feed(stream: IO[bytes]) -> None:
        stream.write(wrap(script, {}, mark))
        with local.open("rb") as source:
            source.seek(offset)
            while block := source.read(_BLOCK):
                stream.write(block)

    timeout = 60 + (file.size - offset) / _SLOWEST
    status, _, said = host.finish(host.start(), feed, mark, timeout)
    if status:
        raise CommandFailedError(["copying a file"], status, said, where=host.label)


def _plain(folder: Path, may_follow: Callable[[Path], bool]) -> Iterator[Path]:
    """Every file below a folder."""
    seen = set()
    for parent, names, files in os.walk(folder, followlinks=True):
        status = os.stat(parent)
        if (status.st_dev, status.st_ino) in seen:
            names.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        names[:] = [name for name in names if _leads_on(Path(parent, name), may_follow)]
        yield from (
            path for name in files if (path := Path(parent, name)).is_file() and _leads_on(path, may_follow)
        )


def _leads_on(path: Path, may_follow: Callable[[Path], bool]) -> bool:
    return not path.is_symlink() or may_follow(path.resolve())
