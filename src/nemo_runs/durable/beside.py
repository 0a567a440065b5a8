"""Folders in which something is made before it gets its name, so that it is there whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nemo_runs import file_locks


@contextlib.contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A new folder beside the place of what is made in it, locked and removed at the end.

    Those that killed processes have left of the same place are removed first.
    """
    head = f".gym-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}-"
    with locked(path.parent):  # so that none is removed before it is locked
        for left in path.parent.glob(f"{head}*"):
            with locked(left, wait=False) as is_ours:
                if is_ours:
                    shutil.rmtree(left, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=head, dir=path.parent))
        lock = contextlib.ExitStack()
        lock.enter_context(locked(made, wait=False))
    with lock:
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Whether it is locked for the block; never where there are no locks, or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        locked = False
        with contextlib.suppress(OSError):
            locked = file_locks.take(descriptor, wait=wait)
        yield locked
    finally:
        os.close(descriptor)
