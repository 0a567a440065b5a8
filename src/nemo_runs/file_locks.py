"""Locks on files, which the kernel takes back when their holder ends, however it ends.

A lock keeps apart those who ask for it. It fences nobody: on a network file system a node that is gone may
keep its lock, and a write of it may land later.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_BUSY = frozenset({errno.EACCES, errno.EAGAIN})


def take(descriptor: int, *, wait: bool = True, shared: bool = False, of_process: bool = False) -> bool:
    """Lock an open file until its descriptor is closed; whether it is locked.

    ``wait``: until the others have let go; without it the answer is `False` when somebody else holds it.
    ``shared``: beside others that ask for a shared lock. ``of_process``: the lock belongs to the process and
    ends with the first descriptor of the file that it closes, instead of belonging to this descriptor.
    Raises `OSError` where the file system has no locks.
    """
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        (fcntl.lockf if of_process else fcntl.flock)(descriptor, operation)
    except OSError as error:
        if wait or error.errno not in _BUSY:
            raise
        return False
    return True


def acquire(path: Path, *, wait: bool = True, mode: int = 0o600) -> int | None:
    """A descriptor that holds the lock of a file, made if it is missing, until it is closed.

    `None` where somebody else holds it and ``wait`` is false. No child inherits the descriptor.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        if take(descriptor, wait=wait):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


@contextlib.contextmanager
def held(path: Path, *, mode: int = 0o600) -> Iterator[None]:
    """The lock of a file, waited for, as long as the block lasts."""
    descriptor = acquire(path, mode=mode)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether anybody holds the lock of a file; a file that is missing is held by nobody."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not take(descriptor, wait=False, shared=True)
    finally:
        os.close(descriptor)
