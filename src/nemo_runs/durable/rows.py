"""Files of rows: reading them, repairing what a crash left at their end, and appending to them.

A row ends with ``\\n`` alone; other line separators are data.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_runs.durable import disk
from nemo_runs.errors import DiskFullError, RunsError


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes after the last newline that were moved out of a file."""

    path: Path
    offset: int
    """Where the tail began; the file is this long now."""
    size: int
    """How many bytes were moved."""
    aside: Path
    """The file that holds them now."""


def read_lines(path: Path, *, chunk: int = disk.CHUNK) -> Iterator[bytes]:
    """Yield the rows of a file without their newline; a tail without a newline is not a row.

    Memory stays near ``chunk`` bytes plus the longest row. Raises `FileNotFoundError` at the first step.
    """
    return (line for line, whole in read_pieces(path, chunk=chunk) if whole)


def read_pieces(path: Path, *, chunk: int = disk.CHUNK) -> Iterator[tuple[bytes, bool]]:
    """Yield ``(row, True)`` for each row and, where a tail without a newline is left, ``(tail, False)``."""
    with open(path, "rb", buffering=0, opener=disk.regular) as file:
        unfinished: list[bytes] = []
        while block := file.read(chunk):
            lines = block.split(b"\n")
            if len(lines) == 1:
                unfinished.append(block)
                continue
            unfinished.append(lines[0])
            lines[0] = b"".join(unfinished)
            unfinished = [lines.pop()]
            for line in lines:
                yield line, True
        if tail := b"".join(unfinished):
            yield tail, False


def repair_tail(path: Path, *, whole: Callable[[bytes], bool] = lambda _tail: False) -> TornTail | None:
    """Move what follows the last newline to ``<name>.torn-<n>`` and cut it off; `None` when nothing does.

    The copy is durable before the file is cut. A tail that is ``whole``, a row that merely lacks its newline,
    gets that instead. A missing file has no tail. Nobody else may be writing.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        offset = _after_last_newline(descriptor, size)
        if offset == size:
            return None
        if whole(_read_range(descriptor, offset, size)):
            with disk.full_disk_named(path):
                os.pwrite(descriptor, b"\n", size)
            os.fsync(descriptor)
            return None
        names = (path.with_name(f"{path.name}.torn-{count}") for count in itertools.count(1))
        aside = next(name for name in names if disk.claim(name))
        disk.copy_range(descriptor, offset, size, aside)
        disk.sync_folder(path.parent)
        os.ftruncate(descriptor, offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return TornTail(path, offset, size - offset, aside)


def _read_range(descriptor: int, start: int, end: int) -> bytes:
    """The bytes from ``start`` to ``end``, or as far as there are any."""
    pieces: list[bytes] = []
    while start < end and (piece := os.pread(descriptor, end - start, start)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


def _after_last_newline(descriptor: int, size: int) -> int:
    """The offset just behind the last newline, 0 without one; reads from the end."""
    end = size
    while end:
        start = max(0, end - (1 << 16))
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


class RowAppender:
    """The one writer of a file of rows: each row is one ``write``, whole or taken back.

    The file is created when it is missing; its tail must be whole (see `repair_tail`). An `append` makes all
    rows durable when ``sync_every`` seconds have passed since that was last done; `sync` and `close` always
    do.
    """

    def __init__(
        self, path: Path, *, sync_every: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self.rows = 0
        """Rows appended here; those that were there before do not count."""
        created = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if created:
            disk.sync_folder(path.parent)
        self.offset = os.fstat(self._descriptor).st_size
        """Length of the file in bytes, as far as this writer knows."""
        self._sync_every = sync_every
        self._clock = clock
        self._synced_at = clock()
        self._durable = self.offset
        self._unsynced: list[bytes] = []
        """Rows behind the durable part, as long as the system may still lose them."""
        self._doubtful = False
        """Whether the system may have thrown them away: a delayed write is said once not to fit."""
        self._torn = 0

    def append(self, line: bytes) -> None:
        """Append one row, given without its newline.

        Raises `DiskFullError` when it does not fit (the file then ends with the last whole row) and
        `RunsError` when half a row could not be taken back because somebody else appended meanwhile. A row
        that was appended raises nothing: that it cannot be made durable is said by the next call.
        """
        if b"\n" in line:
            raise RunsError(f"{self.path}: a row must not hold a newline")
        if self._torn:
            self._undo_append()
        if self._doubtful:
            self._write_again()
        row = line + b"\n"
        with disk.full_disk_named(self.path):
            written = os.write(self._descriptor, row)
        if written != len(row):
            self._torn = written
            self._undo_append()
            raise disk.full_disk(self.path, "only a part of a row fitted")
        self.offset += written
        self.rows += 1
        self._unsynced.append(row)
        if self._clock() - self._synced_at >= self._sync_every:
            with contextlib.suppress(DiskFullError):  # else the caller would append the row again
                self.sync()

    def sync(self) -> None:
        """Make every row so far durable; what could not be is written once more by the next call."""
        if self._unsynced:
            if self._doubtful:
                self._write_again()
            self._doubtful = True
            with disk.full_disk_named(self.path):
                os.fdatasync(self._descriptor)
            self._doubtful = False
            self._durable = self.offset
            self._unsynced.clear()
        self._synced_at = self._clock()

    def empty(self) -> None:
        """Remove every row, those of earlier writers included; what they were for must be safe elsewhere."""
        os.ftruncate(self._descriptor, 0)
        self.offset = self._durable = self._torn = 0
        self._unsynced.clear()
        self._doubtful = False

    def close(self) -> None:
        """Make every row durable and close the file; may be called again."""
        if self._descriptor < 0:
            return
        try:
            self.sync()
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def superseded(self) -> bool:
        """Whether the path names another file now, or none: somebody took over, and writing has no effect."""
        mine = os.fstat(self._descriptor)
        try:
            there = self.path.stat()
        except OSError:
            return True
        return (mine.st_ino, mine.st_dev) != (there.st_ino, there.st_dev)

    def _write_again(self) -> None:
        """Put the rows that are not durable where they belong, whatever became of them."""
        if self._torn:
            self._undo_append()
        if os.fstat(self._descriptor).st_size > self.offset:
            raise RunsError(f"{self.path}: somebody else writes here too; its rows were left alone")
        os.ftruncate(self._descriptor, self._durable)
        with disk.full_disk_named(self.path):
            disk.write_all(self._descriptor, b"".join(self._unsynced))
        self._doubtful = False

    def _undo_append(self) -> None:
        if os.fstat(self._descriptor).st_size != self.offset + self._torn:
            raise RunsError(f"{self.path}: somebody else writes here too; half a row was left at its end")
        os.ftruncate(self._descriptor, self.offset)
        self._torn = 0
