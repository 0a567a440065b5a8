"""Files to a host and back, through the same channel as commands: no second program and no second login.

To the host: one tar stream, unpacked beside its target and renamed. From the host: every file under a name of
its own until it is whole, so that a broken copy goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import select
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nemo_slurm.channel import Channel, FileQuery, end_group, new_mark, says_full, tail, wrap
from nemo_slurm.errors import (
    ChangedError,
    CommandFailedError,
    NoSuchPathError,
    NotReachableError,
    PathExistsError,
    StorageFullError,
)
from nemo_slurm.remote_script import remote_script

Wanted = Callable[[str], bool]
"""Says of a path relative to the copied folder whether it is wanted."""

_CONTENT = "content"
_IDLE = 60.0
_SLOW = 3600.0
"""Seconds for which a host may list a folder."""
_SLOWEST = 50_000
"""Bytes a second below which a transfer counts as broken."""


def everything(path: str) -> bool:
    """Every file is wanted."""
    del path
    return True


def nothing(files: Sequence[RemoteFile]) -> None:
    """What is going to be copied matters to nobody."""
    del files


def copy_in(host: Channel, local: Path, remote: str) -> None:
    """See `nemo_slurm.hosts.Host.copy_in`.

    Raises `PathExistsError`, `CommandFailedError` for a failed copy, and `NotReachableError`.
    """
    parent = posixpath.dirname(remote)
    script = remote_script("nemo_slurm", "copy_in", path=remote, folder=parent, content=_CONTENT)
    mark = new_mark()
    size = sum(path.lstat().st_size for path in [local, *local.rglob("*")])

    def feed(stream: IO[bytes]) -> None:
        stream.write(wrap(script, {}, mark))
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            archive.add(local, _CONTENT)

    status, _, text = host.finish(host.start(), feed, mark, _IDLE + size / _SLOWEST)
    if status == 45:
        raise PathExistsError(f"{remote} is there already on {host.label}; nothing was copied")
    if status and says_full(text):
        raise StorageFullError(text, where=host.label, path=parent)
    if status:
        raise CommandFailedError(["copying files"], status, text, where=host.label)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file as the host describes it."""

    path: str
    """Relative to the folder."""
    size: int
    modified: int
    """Nanoseconds since the epoch."""
    inode: int

    @property
    def mark(self) -> list[int]:
        """What distinguishes a state of the file from its other states, here and there."""
        return [self.size, self.modified]

    def is_at(self, path: Path) -> bool:
        """Whether an earlier copy is this file."""
        try:
            found = path.lstat()
        except FileNotFoundError:
            return False
        return (found.st_size, found.st_mtime_ns) == (self.size, self.modified)

    def part(self, path: Path) -> Path:
        """Where the copy grows; another file under the same name grows elsewhere."""
        identity = hashlib.sha256(f"{self.size} {self.modified} {self.inode}".encode()).hexdigest()
        return path.with_name(f".{path.name}.part-{identity[:10]}")


Expect = Callable[[Sequence[RemoteFile]], None]
"""Gets the files that are going to be copied."""


def listing(host: FileQuery, folder: str, *, through: Sequence[str] = ()) -> list[RemoteFile]:
    """All plain files below a folder, links left out but for those to folders among ``through``.

    Raises `NoSuchPathError` for a folder that is missing, `CommandFailedError` and `NotReachableError`.
    """
    script = remote_script("nemo_slurm", "list_files", folder=folder, through=through)
    done = host.run(script, timeout=_SLOW)
    if done.status == 44:
        raise NoSuchPathError(f"{folder}: no such folder on {host.label}")
    if done.status:
        raise CommandFailedError(["find"], done.status, done.stderr, where=host.label)
    found = []
    for row in done.stdout.split("\0")[:-1]:
        size, modified, inode, path = row.split(" ", 3)
        whole, _, fraction = modified.partition(".")
        nanoseconds = int(whole) * 1_000_000_000 + int(fraction[:9].ljust(9, "0"))
        found.append(RemoteFile(path.removeprefix("./"), int(size), nanoseconds, int(inode)))
    return sorted(found, key=lambda file: file.path)


def copy_out(
    host: Channel, folder: str, local: Path, wanted: Wanted, *, expect: Expect, through: Sequence[str]
) -> list[Path]:
    """See `nemo_slurm.hosts.Host.copy_out`."""
    files = [file for file in listing(host, folder, through=through) if wanted(file.path)]
    missing = [file for file in files if not file.is_at(local / file.path)]
    expect(missing)
    offsets = [_begun(file.part(local / file.path)) for file in missing]
    if missing:
        _stream(host, folder, local, list(zip(missing, offsets, strict=True)))
    return [local / file.path for file in missing]


def _begun(part: Path) -> int:
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0


def _stream(host: Channel, folder: str, local: Path, files: Sequence[tuple[RemoteFile, int]]) -> None:
    mark = new_mark()
    script = remote_script(
        "nemo_slurm",
        "copy_out",
        folder=folder,
        mark=mark,
        paths=[file.path for file, _ in files],
        offsets=[offset for _, offset in files],
        counts=[file.size - offset for file, offset in files],
    )
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            host.argv(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            source = _Source(process.stdout.fileno(), host.label)
            with process.stdin as stdin:
                stdin.write(wrap(script, {}, mark))
            if not source.skip_line(f"{mark} begin\n".encode()):
                errors.seek(0)
                raise host.explain(process.wait(_IDLE), errors.read().decode("utf-8", "replace"))
            _receive(source, mark, local, files, host)
        except BrokenPipeError:
            errors.seek(0)
            raise host.explain(process.wait(_IDLE), tail(errors.read().decode("utf-8", "replace"))) from None
        finally:
            end_group(process)


def _receive(
    source: _Source, mark: str, local: Path, files: Sequence[tuple[RemoteFile, int]], host: Channel
) -> None:
    finished: tuple[RemoteFile, Path] | None = None
    for file, offset in files:
        head = source.exactly(len(f"{mark} file\n"))
        _check(head == f"{mark} file\n".encode(), finished, file, host)
        if finished:
            _publish(*finished)
        target = local / file.path
        with file.part(target).open("ab") as part:
            for data in source.pieces(file.size - offset):
                part.write(data)
            part.flush()
            os.fsync(part.fileno())
        finished = (file, target)
    end = f"\n{mark} end 0\n".encode()
    _check(source.exactly(len(end)) == end, finished, None, host)
    if finished:
        _publish(*finished)


def _check(
    ok: bool, finished: tuple[RemoteFile, Path] | None, file: RemoteFile | None, host: Channel
) -> None:
    """A file that was cut while it was read leaves the stream out of step: what was read of it is dropped."""
    if ok:
        return
    if finished:
        finished[0].part(finished[1]).unlink(missing_ok=True)
    name = finished[0].path if finished else file.path if file else "a file"
    raise ChangedError(f"{name} on {host.label} changed or vanished while it was copied; copy again")


def _publish(file: RemoteFile, target: Path) -> None:
    part = file.part(target)
    os.utime(part, ns=(file.modified, file.modified))
    part.replace(target)
    for stale in target.parent.iterdir():
        if stale.name.startswith(f".{target.name}.part-"):
            stale.unlink(missing_ok=True)


class _Source:
    """Reads a pipe; silence for too long is an error, as is an early end."""

    def __init__(self, descriptor: int, label: str) -> None:
        self._descriptor = descriptor
        self._label = label
        self._buffer = b""

    def skip_line(self, wanted: bytes) -> bool:
        """Drop everything up to and including ``wanted``; False when the stream ends before."""
        while wanted not in self._buffer:
            data = self._next()
            if not data:
                return False
            self._buffer += data
        self._buffer = self._buffer.split(wanted, 1)[1]
        return True

    def exactly(self, count: int) -> bytes:
        """That many bytes, fewer only at the end of the stream."""
        while len(self._buffer) < count:
            data = self._next()
            if not data:
                break
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def pieces(self, count: int) -> Iterator[bytes]:
        """That many bytes in pieces."""
        while count:
            data = self._buffer or self._next()
            if not data:
                raise NotReachableError(
                    f"the connection to {self._label} broke during a copy; copying again goes on"
                )
            yield data[:count]
            self._buffer = data[count:]
            count -= min(count, len(data))

    def _next(self) -> bytes:
        ready, _, _ = select.select([self._descriptor], [], [], _IDLE)
        if not ready:
            raise NotReachableError(
                f"{self._label} sent nothing for {_IDLE:g} s during a copy; copying again goes on"
            )
        return os.read(self._descriptor, 1 << 20)
