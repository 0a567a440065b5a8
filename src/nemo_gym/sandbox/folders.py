"""The folders that programs in a sandbox can write to, handled so that nothing they leave there can do harm.

A program may leave links to the user's files, folders without permissions, or a nesting deeper than a path
can name. Here no link is followed, and no path is longer than one name.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SPACE = 64 << 10
"""With fewer bytes left, a write that failed need not have been the program's fault."""
DEEPEST = 64
"""Folders within each other that count as a misuse of the disk when there are more."""
ENTRY = 4096
"""Bytes that a file or folder counts at the least, so that empty ones are bounded, too."""


def write_files(folder: Path, files: Mapping[str, bytes], owner: int | None = None) -> None:
    """Write files below a folder, with the folders that they need; what has their names is replaced.

    ``owner``: the user that they are to belong to, by number. Raises `ValueError` for a path that leads out.
    """
    for name, content in files.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            raise ValueError(f"{name!r} does not name a file below /work")
        with _opened(folder, parts[:-1], owner) as parent:
            _clear(parent, parts[-1])
            descriptor = os.open(parts[-1], _NEW, 0o644, dir_fd=parent)
            with open(descriptor, "wb") as stream:
                stream.write(content)
                if owner is not None:
                    os.fchown(descriptor, owner, owner)


def is_disk_full(folder: Path) -> bool:
    """Whether its file system has no space left, whatever a program may take of it."""
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize < _NO_SPACE


def used_bytes(folder: Path, *, beyond: int) -> int:
    """What the files below a folder take on the disk; it stops counting once that is more than ``beyond``.

    What cannot be counted counts as more: folders nested deeper than `DEEPEST`, paths that are too long, and
    folders that may not be listed.
    """
    total = 0
    left = [(str(folder), 0)]
    while left and total <= beyond:
        path, depth = left.pop()
        try:
            if depth > DEEPEST:
                return beyond + 1
            with os.scandir(path) as entries:
                for entry in entries:
                    found = _status(entry)
                    if found is None:
                        continue
                    total += max(ENTRY, found.st_blocks * 512)
                    if stat.S_ISDIR(found.st_mode):
                        left.append((entry.path, depth + 1))
                    if total > beyond:
                        break
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError:
            return beyond + 1
    return total


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False)
    return None


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, whatever its permissions and however deep; quiet if missing."""
    try:
        descriptor = _open_folder(str(folder), None)
    except FileNotFoundError:
        return
    try:
        while _flatten(descriptor):
            pass
    finally:
        os.close(descriptor)
    folder.rmdir()


def _flatten(top: int) -> bool:
    """Remove what is here, but for folders in folders here, which come up; whether there are any."""
    some = False
    for name in os.listdir(top):
        if not _is_folder(name, top):
            os.unlink(name, dir_fd=top)
            continue
        inner = _open_folder(name, top)
        try:
            for below in os.listdir(inner):
                if _is_folder(below, inner):
                    some = True
                    # a folder can be moved only by one who may write to it
                    os.close(_open_folder(below, inner))
                    os.rename(below, f"up-{uuid.uuid4().hex}", src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(below, dir_fd=inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)
    return some


def _is_folder(name: str, within: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode)


def _open_folder(name: str, within: int | None) -> int:
    """Open a folder, which is known not to be a link, with the right to list and change it."""
    found = os.stat(name, dir_fd=within, follow_symlinks=False)
    if stat.S_IMODE(found.st_mode) & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IRWXU, dir_fd=within)
    return os.open(name, _FOLDER, dir_fd=within)


@contextlib.contextmanager
def _opened(folder: Path, parts: tuple[str, ...], owner: int | None) -> Iterator[int]:
    """The descriptor of a folder below another, made if it is missing; a link in its place is replaced."""
    descriptor = os.open(folder, _FOLDER)
    try:
        for part in parts:
            if not _is_there(part, descriptor):
                _clear(descriptor, part)
                os.mkdir(part, 0o755, dir_fd=descriptor)
                if owner is not None:
                    os.chown(part, owner, owner, dir_fd=descriptor, follow_symlinks=False)
            inner = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _is_there(name: str, within: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return _is_folder(name, within)
    return False


def _clear(within: int, name: str) -> None:
    """Make the place of a file free; a folder there stays, and the file cannot be written."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=within)
