"""The files of a run's log, wherever they lie: what a reader of logs asks for, and this machine's answer.

``output.jsonl`` is the newest part, ``output.<n>.jsonl`` are older ones. Standard library only.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Protocol

from nemo_helix_server.storage.run_files import OUTPUT

_BLOCK = 1 << 16


class LogPart(Protocol):
    """One file of a log, opened; it stays readable when it is renamed or removed meanwhile."""

    @property
    def number(self) -> int:
        """Larger for a newer part; a part keeps it when it is renamed."""
        ...

    @property
    def size(self) -> int:
        """Bytes up to and with the last newline that was there when it was opened."""
        ...

    @property
    def identity(self) -> Hashable:
        """The same for the same file at another time, and for no other file."""
        ...

    def read(self, length: int, offset: int) -> bytes:
        """Up to so many bytes from an offset on; empty behind the end."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class RunLog(Protocol):
    """The log of one run."""

    def parts(self) -> Sequence[LogPart]:
        """Every part that there is now, oldest first; who asks closes them. Empty without a log."""
        ...

    def mark(self) -> Hashable:
        """What is something else whenever the log has grown; `None` without a log. Costs next to nothing."""
        ...


class LocalLog:
    """The log in a folder of this machine; see `RunLog`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def parts(self) -> list[LogPart]:
        """See the protocol. The newest part is renamed when it is full: then it is looked again."""
        while True:
            numbers = self._numbers()
            names = [(number, self._folder / f"output.{number}.jsonl") for number in numbers]
            newest = max(numbers, default=0) + 1
            opened: list[LogPart] = [
                part
                for number, path in [*names, (newest, self._folder / OUTPUT)]
                if (part := _open(number, path)) is not None
            ]
            if self._numbers() == numbers:
                return opened
            for one in opened:
                one.close()

    def mark(self) -> tuple[int, int, int] | None:
        """See the protocol."""
        try:
            status = (self._folder / OUTPUT).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _numbers(self) -> list[int]:
        try:
            return part_numbers(self._folder)
        except OSError:
            return []


class _FilePart:
    def __init__(self, number: int, descriptor: int, status: os.stat_result) -> None:
        self.number = number
        self.size = _whole(descriptor, status.st_size)
        self.identity = (status.st_dev, status.st_ino)
        self._descriptor = descriptor

    def read(self, length: int, offset: int) -> bytes:
        return os.pread(self._descriptor, length, offset)

    def close(self) -> None:
        os.close(self._descriptor)


def part_numbers(folder: Path) -> list[int]:
    """The numbers of the older parts of a log, ascending; the newest part has no number."""
    found = (re.fullmatch(r"output\.([1-9][0-9]{0,15})\.jsonl", name) for name in os.listdir(folder))
    return sorted(int(match[1]) for match in found if match)


def _open(number: int, path: Path) -> _FilePart | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    return _FilePart(number, descriptor, status)


def _whole(descriptor: int, size: int) -> int:
    """The offset behind the last newline."""
    end = size
    while end:
        start = max(0, end - _BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
