"""Turns among the jobs of one run directory: at most so many run at once, in the order of their numbers.

Locks on files carry the turns, so that a job whose supervisor was killed neither holds nor waits for one: a
lock dies with its process, since descriptors are not inherited and supervisors never fork.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_WAITING = "waiting-"
_RUNNING = "running-"


class Turn:
    """One job's place: it waits by a ticket, `take` turns that into a slot, `leave` gives either up."""

    def __init__(self, folder: Path, number: int, slots: int) -> None:
        """Take a ticket; ``number`` orders the tickets, ``slots`` is how many jobs may run at once."""
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._slots = slots
        self._ticket = folder / f"{_WAITING}{number:012}"
        self._held = _locked(self._ticket)
        self._slot: int | None = None

    def take(self) -> bool:
        """Whether this job may run now; asked again and again until it is true."""
        if self._slot is None and not self._somebody_before():
            self._slot = self._free_slot()
            if self._slot is not None:
                self._drop_ticket()
        return self._slot is not None

    def leave(self) -> None:
        """Give up the place, or the ticket."""
        self._drop_ticket()
        if self._slot is not None:
            os.close(self._slot)
            self._slot = None

    def _drop_ticket(self) -> None:
        if self._held is not None:
            self._ticket.unlink(missing_ok=True)
            os.close(self._held)
            self._held = None

    def _somebody_before(self) -> bool:
        names = sorted(name for name in os.listdir(self._folder) if name.startswith(_WAITING))
        return any(_is_locked(self._folder / name) for name in names if name < self._ticket.name)

    def _free_slot(self) -> int | None:
        for number in range(self._slots):
            descriptor = _locked(self._folder / f"{_RUNNING}{number}")
            if descriptor is not None:
                return descriptor
        return None


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock of a file, or `None` when somebody else holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
