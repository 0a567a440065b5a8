"""How far a file was read, and whether what is there now is the same file, only longer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from nemo_runs.durable import disk

_EDGE: Final = 4096
"""Bytes that are compared at the start of a file and before the place up to which it was read."""


@dataclass(frozen=True, slots=True)
class FileMark:
    """One file as it was when it was read up to ``offset``."""

    inode: int
    """0: the file was not there."""
    size: int
    mtime_ns: int
    offset: int
    """Read up to here: behind a line feed."""
    head: int
    """Checksum of the first bytes before the offset."""
    tail: int
    """Checksum of the last bytes before the offset."""


ABSENT: Final = FileMark(0, 0, 0, 0, 0, 0)


def mark_of(path: Path, offset: int) -> FileMark:
    """The mark of a file that was read up to an offset; `ABSENT` where there is none."""
    try:
        with open(path, "rb", buffering=0, opener=disk.regular) as file:
            there = os.fstat(file.fileno())
            offset = min(offset, there.st_size)
            head, tail = _edges(file.fileno(), offset)
            return FileMark(there.st_ino, there.st_size, there.st_mtime_ns, offset, head, tail)
    except FileNotFoundError:
        return ABSENT


def is_unchanged(path: Path, mark: FileMark) -> bool:
    """Whether a file is as it was, as far as the system says without reading it."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return mark == ABSENT
    return (there.st_ino, there.st_size, there.st_mtime_ns) == (mark.inode, mark.size, mark.mtime_ns)


def only_grew(path: Path, mark: FileMark) -> bool:
    """Whether all that was read of a file is still there, so that reading can go on at the offset.

    False for a file that was replaced, cut before the offset, or written to without growing.
    """
    now = mark_of(path, mark.offset)
    same = (now.inode, now.offset, now.head, now.tail) == (mark.inode, mark.offset, mark.head, mark.tail)
    rewritten = now.size == mark.size == mark.offset and now.mtime_ns != mark.mtime_ns
    return mark == ABSENT or (same and not rewritten)


def _edges(descriptor: int, offset: int) -> tuple[int, int]:
    length = min(_EDGE, offset)
    return (
        crc32(os.pread(descriptor, length, 0)),
        crc32(os.pread(descriptor, length, offset - length)),
    )
