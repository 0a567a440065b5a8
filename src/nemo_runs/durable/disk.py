"""Writing to disk so that it lasts: temporary names, durable copies, and a full disk said as one sentence."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from nemo_runs.errors import DiskFullError

CHUNK = 1 << 20
"""Bytes to read or copy at once."""
LARGEST_DOCUMENT = 256 << 20
"""Bytes of a file that is read as a whole."""

NO_HARD_LINKS = frozenset(
    {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV},
)
"""What ``link`` says where a file system has no hard links, or gives none to other users' files."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF})


def sync_folder(folder: Path) -> None:
    """Make creations, renames and removals inside ``folder`` durable, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def regular(path: str, flags: int) -> int:
    """The ``opener`` for files of a folder that others may write to: it opens regular files alone.

    Raises `OSError` for a pipe, a device or a socket, whose reading need not come to an end.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", path)


def read_document(path: Path) -> bytes:
    """A small file of a folder that others may write to. Raises `OSError`, also for one of gigabytes."""
    with open(path, "rb", opener=regular) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_DOCUMENT:
            raise OSError(errno.EINVAL, f"it has more than {LARGEST_DOCUMENT:,} bytes", str(path))
        return file.read()


@contextlib.contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """Offer an unused name in the folder of ``path``, short however long its own name is, and clean it up."""
    temporary = path.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(6)}")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def is_full(error: OSError) -> bool:
    """Whether an error means that a write did not fit."""
    return error.errno in _FULL


def free_bytes(folder: Path) -> int | None:
    """What may still be written to the file system of a folder; `None` where that is not known.

    What is kept for root does not count. A user's quota may leave less: file systems do not say it. One that
    counts no blocks at all, as those before object stores may, says nothing.
    """
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize if found.f_blocks else None


def full_disk(path: Path, reason: str) -> DiskFullError:
    """The error for a write to ``path`` that did not fit."""
    return DiskFullError(f"{path}: could not be written ({reason}); free some space and start again")


@contextlib.contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Turn "no space", "quota" and "too large" into `DiskFullError`; other errors pass."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise full_disk(path, error.strerror or "no space") from error


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, in several steps if it must be; not for files that others append to."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_new(path: Path, data: bytes, mode: int | None, *, durable: bool = True) -> None:
    """Create or overwrite a file that nobody else reads yet, durably or not.

    The mode is set exactly; `None`: it is what the umask leaves of 0666.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with full_disk_named(path):
        descriptor = os.open(path, flags, 0o666 if mode is None else 0o600)
        try:
            write_all(descriptor, data)
            if mode is not None:
                os.fchmod(descriptor, mode)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def copy_range(source: int, start: int, end: int, target: Path) -> None:
    """Copy bytes of an open file to ``target``, durably and with the same mode."""
    with full_disk_named(target):
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            while start < end and (block := os.pread(source, min(CHUNK, end - start), start)):
                write_all(descriptor, block)
                start += len(block)
            os.fchmod(descriptor, stat.S_IMODE(os.fstat(source).st_mode))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_regular(path: Path, *, within: Path | None = None) -> int:
    """Open a file that others write for reading, without ever waiting for them.

    A pipe would block its reader and a device has no end: raises `OSError` for all that is not a regular
    file, and, with ``within``, for what does not lie in that folder, whatever links led there.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))  # noqa: TRY301 - one funnel
        require_within(descriptor, path, within)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_within(descriptor: int, path: Path, within: Path | None) -> None:
    """Raise `OSError` for what was opened outside a folder; `None`: anything may be.

    It checks the open file: the path could be changed between a check and the opening.
    """
    if within is None:
        return
    opened = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    if not opened.is_relative_to(within.resolve()):
        raise OSError(errno.ELOOP, f"leads out of {within}", str(path))


def read_regular(path: Path, *, most: int = 1 << 20, within: Path | None = None) -> bytes:
    """All bytes of a file that others write.

    Raises `OSError` for no regular file, for a larger one, and for one that does not lie in ``within``.
    """
    with open(open_regular(path, within=within), "rb", buffering=0) as file:
        data = file.read(most + 1) or b""
        while len(data) <= most and (more := file.read(most + 1 - len(data))):
            data += more
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is larger than {most} bytes", str(path))
    return data


def claim(path: Path) -> bool:
    """Create an empty file; false when the name is taken."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True
