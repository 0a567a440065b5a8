"""Durable files: replacing and creating whole ones here; rows and their adoption from the modules beside.

Every write can be the last one. A file is replaced by rename or not at all, a row is appended by one
``write`` or taken back, and nothing is deleted before its replacement is on the disk.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from nemo_runs.durable.adoption import AdoptedRows, adopt_rows
from nemo_runs.durable.disk import NO_HARD_LINKS, read_document, sync_folder, temporary_beside, write_new
from nemo_runs.durable.rows import RowAppender, TornTail, read_lines, repair_tail
from nemo_runs.errors import DiskFullError

__all__ = [
    "AdoptedRows",
    "DiskFullError",
    "RowAppender",
    "TornTail",
    "adopt_rows",
    "create_file",
    "read_document",
    "read_lines",
    "repair_tail",
    "replace_file",
    "sync_folder",
]


def replace_file(path: Path, data: bytes, *, mode: int | None = 0o644, durable: bool = True) -> None:
    """Put ``data`` at ``path``; a reader, or a crash at any moment, meets the old bytes or the new ones.

    ``mode`` is set exactly, regardless of the umask; `None`: it is what the umask leaves of 0666.
    Raises `DiskFullError` when the data does not fit.
    Without ``durable`` the disk is not waited for: a crash of the machine, and only that, may leave less.
    """
    with temporary_beside(path) as temporary:
        write_new(temporary, data, mode, durable=durable)
        temporary.replace(path)
    if durable:
        sync_folder(path.parent)


def create_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Create ``path`` with all of ``data``, or raise `FileExistsError`; of several creators one succeeds.

    Where the file system has hard links nobody ever sees the file half-written.
    """
    with temporary_beside(path) as temporary:
        write_new(temporary, data, mode)
        try:
            os.link(temporary, path, follow_symlinks=False)
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            _create_in_place(path, data, mode)
    sync_folder(path.parent)


def _create_in_place(path: Path, data: bytes, mode: int) -> None:
    """`create_file` without hard links: exclusive, but a crash may leave the file short."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        write_new(path, data, mode)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
