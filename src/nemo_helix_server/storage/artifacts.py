"""What a result points to: a file or folder below a job's storage or a fileset, and never anything else.

    output/model            a path in the job's own storage
    fileset://<workspace>/<fileset>[/<path>]

Workloads write these folders, so a path is walked from its root one part at a time and no symbolic link is
followed: a link to another job's storage, or to a file of the service's user, leads nowhere.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_helix_plugin.jobs import names
from nemo_helix_server.errors import InvalidError, UnknownNameError

SCHEME = "fileset://"
OWN_FILESET = "job-fileset-"
"""Filesets with this prefix belong to the job whose name follows."""
_CHUNK = 256 * 1024
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class ArtifactLocation:
    """Where an artifact is."""

    fileset: str | None
    """`None`: the job's own storage."""
    path: tuple[str, ...]

    @property
    def name(self) -> str:
        """What a download of it is called."""
        return self.path[-1] if self.path else self.fileset or "storage"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something that can be downloaded."""

    name: str
    size: int | None
    """`None`: a folder, sent as a tar file."""
    chunks: Callable[[], Iterator[bytes]]


def parse(artifact_url: str, *, workspace: str, job: str) -> ArtifactLocation:
    """Read the address of a job's artifact; raises `InvalidError` for all that is not the job's to show."""
    if not artifact_url.isprintable() or len(artifact_url) > _LONGEST:
        raise InvalidError(f"an artifact's address has at most {_LONGEST} printable characters")
    if not artifact_url.startswith(SCHEME):
        if "://" in artifact_url or artifact_url.startswith("/"):
            raise InvalidError(
                f"the artifact '{artifact_url}' is neither {SCHEME}WORKSPACE/NAME nor in the job's storage"
            )
        return ArtifactLocation(None, _parts(artifact_url))
    owner, fileset, *rest = [*artifact_url.removeprefix(SCHEME).split("/", 2), ""][:3]
    for name in (owner, fileset):
        problem = names.problem_with(name)
        if problem:
            raise InvalidError(f"the artifact '{artifact_url}' names no fileset: {problem}")
    if owner != workspace:
        raise InvalidError(
            f"the artifact '{artifact_url}' is in another workspace; a job's results are in its own"
        )
    if fileset.startswith(OWN_FILESET) and fileset != OWN_FILESET + job:
        raise InvalidError(f"the fileset '{fileset}' belongs to another job")
    return ArtifactLocation(fileset, _parts(rest[0]))


def _parts(path: str) -> tuple[str, ...]:
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise InvalidError(f"the path '{path}' leads out of the storage")
    return parts


@dataclass(frozen=True, slots=True)
class ArtifactReader:
    """Opens artifacts of jobs."""

    filesets: Path
    storage_of: Callable[[str, str], Path]
    """Storage folder of a job, by workspace and id."""

    def check(self, artifact_url: str, *, workspace: str, job: str) -> None:
        """Raise `InvalidError` for an address that no result of the job may have."""
        parse(artifact_url, workspace=workspace, job=job)

    def find(self, artifact_url: str, *, workspace: str, job: str, job_id: str) -> Artifact:
        """What an address points to; raises `UnknownNameError` when it is not there (any more)."""
        place = parse(artifact_url, workspace=workspace, job=job)
        root = (
            self.storage_of(workspace, job_id)
            if place.fileset is None
            else self.filesets / workspace / place.fileset
        )
        try:
            descriptor = _open_below(root, place.path)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                raise
            raise UnknownNameError(
                f"the artifact '{artifact_url}' of '{job}' is not there (any more)"
            ) from None
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return Artifact(f"{place.name}.tar", None, lambda: _tar_of(descriptor, place.name))
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise UnknownNameError(f"the artifact '{artifact_url}' of '{job}' is neither a file nor a folder")
        return Artifact(place.name, status.st_size, lambda: _bytes_of(descriptor, status.st_size))


def _open_below(root: Path, parts: tuple[str, ...]) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    current = os.open(root, flags | os.O_DIRECTORY)
    for part in parts:
        try:
            inner = os.open(part, flags, dir_fd=current)
        finally:
            os.close(current)
        current = inner
    return current


def _bytes_of(descriptor: int, size: int) -> Iterator[bytes]:
    """The first ``size`` bytes: what was promised, even if the file grows meanwhile."""
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while size > 0 and (chunk := file.read(min(_CHUNK, size))):
            size -= len(chunk)
            yield chunk


class _Collected(io.RawIOBase):
    """Takes what `tarfile` writes until it is sent."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._written = 0

    def tell(self) -> int:
        """See `io.RawIOBase`."""
        return self._written

    def writable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def write(self, data: object, /) -> int:
        """See `io.RawIOBase`."""
        chunk = bytes(data)  # type: ignore[call-overload] # any buffer
        self._chunks.append(chunk)
        self._written += len(chunk)
        return len(chunk)

    def take(self) -> bytes:
        """All that was written since the last call."""
        taken, self._chunks = b"".join(self._chunks), []
        return taken


def _tar_of(descriptor: int, name: str) -> Iterator[bytes]:
    sink = _Collected()
    try:
        with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for folder, _, file_names, folder_descriptor in os.fwalk(
                ".", dir_fd=descriptor, follow_symlinks=False
            ):
                for file_name in sorted(file_names):
                    member = os.path.normpath(os.path.join(name, folder, file_name))
                    yield from _member(archive, sink, member, folder_descriptor, file_name)
        yield sink.take()
    finally:
        os.close(descriptor)


def _member(
    archive: tarfile.TarFile, sink: _Collected, member: str, folder: int, file_name: str
) -> Iterator[bytes]:
    """One regular file of an archive; links, sockets and what has gone meanwhile are left out."""
    try:
        opened = os.open(file_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return
    with os.fdopen(opened, "rb", buffering=0) as file:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            return
        entry = tarfile.TarInfo(member)
        entry.size, entry.mtime, entry.mode = (
            status.st_size,
            int(status.st_mtime),
            stat.S_IMODE(status.st_mode),
        )
        archive.addfile(entry)  # the header; the content follows in pieces, so that none of it is kept
        left = status.st_size
        while left > 0:
            chunk = file.read(min(_CHUNK, left)) or b"\0" * min(_CHUNK, left)
            left -= len(chunk)
            sink.write(chunk)
            yield sink.take()
        sink.write(b"\0" * (-status.st_size % tarfile.BLOCKSIZE))
        archive.offset += status.st_size + (-status.st_size % tarfile.BLOCKSIZE)
