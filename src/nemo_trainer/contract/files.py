"""Files with digests: making entries for them durably, and comparing files with their entries."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nemo_runs.durable.disk import open_regular
from nemo_runs.durable.files import sync_folder
from nemo_trainer.contract.errors import NotSavedError
from nemo_trainer.contract.manifest import FileEntry

_CHUNK = 1 << 20
_READERS = min(4, os.cpu_count() or 1)
"""Digests are made by so many threads; the interpreter is not held meanwhile."""


def file_problems(
    folder: Path, entries: Sequence[FileEntry], *, deep: bool, root: Path | None = None
) -> list[str]:
    """How files differ from their entries, a sentence each; all must lie in ``root`` (or ``folder``)."""
    limit = (root or folder).resolve()
    with ThreadPoolExecutor(_READERS if deep else 1) as pool:
        found = pool.map(lambda entry: _problem(folder / entry.path, entry, limit, deep=deep), entries)
        return [problem for problem in found if problem]


def seal(folder: Path, paths: Iterable[Path]) -> tuple[FileEntry, ...]:
    """Make files durable and return their entries, relative to ``folder`` and in order of their paths.

    Raises `NotSavedError` for a file that somebody still writes to. Folders are left to `sync_folders`.
    """
    with ThreadPoolExecutor(_READERS) as pool:
        entries = pool.map(lambda path: _seal(folder, path), sorted(paths))
        return tuple(entries)


def files_below(folder: Path) -> list[Path]:
    """Every file in a folder and its folders; raises `NotSavedError` for what cannot be kept as a file."""
    found: list[Path] = []
    for parent, folders, files in os.walk(folder, onerror=_raise):
        for name in [*folders, *files]:
            path = Path(parent, name)
            if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
                raise NotSavedError(f"{path}: is a link that leads out of its folder; save the file itself")
        found += [_regular(Path(parent, name)) for name in files]
        found += [path for name in folders if (path := Path(parent, name)).is_symlink() and _regular(path)]
    return found


def sync_folders(folder: Path) -> None:
    """Make a folder and every folder in it durable, the innermost first."""
    for parent, _folders, _files in os.walk(folder, topdown=False, onerror=_raise):
        sync_folder(Path(parent))


def _problem(path: Path, entry: FileEntry, limit: Path, *, deep: bool) -> str | None:
    try:
        if not path.resolve().is_relative_to(limit):
            return f"{path}: leads out of {limit}"
        size = _size(path)
        if size != entry.size:
            return f"{path}: has {size} bytes, and {entry.size} were written"
        if deep and _digest(path, limit) != entry.sha256:
            return f"{path}: its digest is not the one that was written"
    except FileNotFoundError:
        return f"{path}: is missing"
    except (OSError, RuntimeError) as error:
        return f"{path}: cannot be read: {error}"
    return None


def _size(path: Path) -> int:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return status.st_size


def _seal(folder: Path, path: Path) -> FileEntry:
    with path.open("rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise NotSavedError(f"{path}: somebody still writes to it; publish when the save has finished")
    return FileEntry(Path(os.path.relpath(path, folder)).as_posix(), after.st_size, digest)


def _digest(path: Path, limit: Path) -> str:
    with open(open_regular(path, within=limit), "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _regular(path: Path) -> Path:
    if not path.is_file():
        raise NotSavedError(f"{path}: is not a file that can be kept")
    return path


def _raise(error: OSError) -> None:
    raise error
