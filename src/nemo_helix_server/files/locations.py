"""Where filesets lie: a folder of this machine, or an address of fsspec. Paths below are relative."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from nemo_helix_server.errors import UnavailableError

_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTS = ".parts"
"""Where uploads lie until they are whole, in the folder of their workspace, since its steps see no other; no
fileset can have this name."""


@dataclass(frozen=True, slots=True)
class FilesetEntry:
    """A file that is there."""

    path: str
    size: int
    modified_at: float | None = None


class Upload(Protocol):
    """A file on its way; it is there whole after `commit`, or not at all."""

    def write(self, data: bytes) -> object:
        """Add to it."""
        ...

    def commit(self) -> None:
        """Put it in its place."""
        ...

    def abort(self) -> None:
        """Forget it."""
        ...


class FileTree(Protocol):
    """A tree of files."""

    def local(self, path: str) -> Path | None:
        """The path on this machine; `None` for a place elsewhere."""
        ...

    def upload(self, path: str) -> Upload:
        """Begin to write a file, which replaces the one that is there."""
        ...

    def open(self, path: str) -> tuple[IO[bytes], int]:
        """A file's content and size; raises FileNotFoundError."""
        ...

    def files(self, folder: str) -> Iterator[FilesetEntry]:
        """Every file below a folder, with paths relative to it, in order."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; fine when there is none."""
        ...


def open_tree(root: str | os.PathLike[str]) -> FileTree:
    """The place at an address; raises `UnavailableError` when its file system is not to be had."""
    text = os.fspath(root)
    if "://" not in text:
        return LocalFileTree(Path(text))
    if text.startswith("file://"):
        return LocalFileTree(Path(text.removeprefix("file://")))
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - takes a while, and only such places need it

        filesystem, base = url_to_fs(text)
    except (ImportError, ValueError, OSError) as error:
        raise UnavailableError(f"the filesets at {text} cannot be reached: {error}") from error
    return RemoteFileTree(filesystem, str(base).rstrip("/"))


class _LocalUpload:
    def __init__(self, root: Path, path: str, parts: str) -> None:
        self._root, self._path = root, path
        self._part = secrets.token_hex(16)
        self._parts = _folder(root, parts)
        created = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=self._parts)
        self._file = os.fdopen(created, "wb")

    def write(self, data: bytes) -> object:
        return self._file.write(data)

    def commit(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        folder, _, name = self._path.rpartition("/")
        target = _folder(self._root, folder)
        try:
            os.replace(self._part, name, src_dir_fd=self._parts, dst_dir_fd=target)
            os.fsync(target)
        finally:
            os.close(target)
        os.close(self._parts)

    def abort(self) -> None:
        with contextlib.suppress(OSError):  # what is buffered cannot be written either
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._part, dir_fd=self._parts)
            os.close(self._parts)


def _folder(root: Path, folder: str, *, make: bool = True) -> int:
    """A folder below the root, opened, and made where it is not there; no link leads to another place.

    Steps write here at any moment: what was opened stays what it is, and a path does not.
    """
    if make:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)  # the operator may have put it on another disk
    for part in folder.split("/") if folder else ():
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=opened)
            inner = os.open(part, _DIRECTORY, dir_fd=opened)
        finally:
            os.close(opened)
        opened = inner
    return opened


class LocalFileTree:
    """A folder of this machine. Links are not followed: nobody puts any here."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def local(self, path: str) -> Path | None:
        """See `FileTree.local`."""
        return self.root / path

    def upload(self, path: str) -> Upload:
        """See `FileTree.upload`."""
        return _LocalUpload(self.root, path, f"{path.partition('/')[0]}/{_PARTS}")

    def open(self, path: str) -> tuple[IO[bytes], int]:
        """See `FileTree.open`."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._there(path) as (folder, name):
            opened = os.open(name, flags, dir_fd=folder)
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            os.close(opened)
            raise FileNotFoundError(path)
        return os.fdopen(opened, "rb"), status.st_size

    def files(self, folder: str) -> Iterator[FilesetEntry]:
        """See `FileTree.files`."""
        found = []
        with contextlib.suppress(FileNotFoundError), self._there(f"{folder}/.") as (top, _):
            for parent, _, names, inside in os.fwalk(".", dir_fd=top):
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=inside, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            path = os.path.normpath(os.path.join(parent, name))
                            found.append(FilesetEntry(path, status.st_size, status.st_mtime))
        yield from sorted(found, key=lambda entry: entry.path)

    def remove(self, path: str) -> None:
        """See `FileTree.remove`."""
        aside = f"removed-{secrets.token_hex(8)}"
        parts = _folder(self.root, f"{path.partition('/')[0]}/{_PARTS}")
        try:
            with contextlib.suppress(FileNotFoundError), self._there(path) as (folder, name):
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=parts)
                if stat.S_ISDIR(os.stat(aside, dir_fd=parts, follow_symlinks=False).st_mode):
                    shutil.rmtree(aside, ignore_errors=True, dir_fd=parts)
                else:
                    os.unlink(aside, dir_fd=parts)
        finally:
            os.close(parts)

    @contextlib.contextmanager
    def _there(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder of a path, opened, and the last name; a link on the way is as if nothing were there."""
        folder, _, name = path.rpartition("/")
        opened = None
        try:
            opened = _folder(self.root, folder, make=False)
            yield opened, name
        except OSError as error:
            if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
                raise
            raise FileNotFoundError(path) from None
        finally:
            if opened is not None:
                os.close(opened)


class _RemoteUpload:
    def __init__(self, filesystem: Any, target: str, part: str) -> None:
        self._filesystem, self._target, self._part = filesystem, target, part
        filesystem.makedirs(part.rpartition("/")[0], exist_ok=True)
        self._file = filesystem.open(part, "wb")

    def write(self, data: bytes) -> object:
        return self._file.write(data)

    def commit(self) -> None:
        self._file.close()
        self._filesystem.makedirs(self._target.rpartition("/")[0], exist_ok=True)
        self._filesystem.mv(self._part, self._target)

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
            self._filesystem.rm(self._part)


class RemoteFileTree:
    """A tree of files at an address of fsspec."""

    def __init__(self, filesystem: Any, base: str) -> None:
        self._filesystem, self._base = filesystem, base

    def local(self, path: str) -> Path | None:  # noqa: ARG002 - as the protocol has it
        """See `FileTree.local`."""
        return None

    def upload(self, path: str) -> Upload:
        """See `FileTree.upload`."""
        return _RemoteUpload(
            self._filesystem, f"{self._base}/{path}", f"{self._base}/{_PARTS}/{secrets.token_hex(16)}"
        )

    def open(self, path: str) -> tuple[IO[bytes], int]:
        """See `FileTree.open`."""
        full = f"{self._base}/{path}"
        if not self._filesystem.isfile(full):
            raise FileNotFoundError(path)
        return self._filesystem.open(full, "rb"), int(self._filesystem.size(full))

    def files(self, folder: str) -> Iterator[FilesetEntry]:
        """See `FileTree.files`."""
        top = f"{self._base}/{folder}"
        self._filesystem.invalidate_cache()
        if not self._filesystem.isdir(top):
            return
        prefix = self._filesystem._strip_protocol(top).rstrip("/") + "/"  # noqa: SLF001 - public by custom only
        for full, known in sorted(self._filesystem.find(top, detail=True).items()):
            yield FilesetEntry(full.removeprefix(prefix), int(known.get("size") or 0))

    def remove(self, path: str) -> None:
        """See `FileTree.remove`."""
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.rm(f"{self._base}/{path}", recursive=True)


def copied(source: IO[bytes], upload: Upload) -> int:
    """Copy an open file into an upload, and put it in its place; how many bytes it has."""
    size = 0
    try:
        while data := source.read(_CHUNK):
            upload.write(data)
            size += len(data)
        upload.commit()
    except BaseException:
        upload.abort()
        raise
    return size
