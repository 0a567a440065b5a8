"""Rows of a growing file from an offset on: where each is, and what is needed of its bytes.

Memory has a bound whatever the size of a row: one that is longer than `HELD` is never held whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from nemo_gym.rollouts.output.framing import whole_rows
from nemo_gym.rollouts.output.rows import IDENTITY, SUFFIX, SUMMED
from nemo_runs.durable import disk

HELD: Final = 32_000_000
"""Bytes; of a longer row only its two ends are looked at, and nobody is shown the rest of it."""

_BLOCK: Final = 1 << 20
_HEAD: Final = 1 << 12
_TAIL: Final = 1 << 20
_CUT: Final = b'"incomplete_details":{"reason":"max_output_tokens"'

Place = tuple[int, int]
"""Task index and repeat."""


@dataclass(frozen=True, slots=True)
class ScannedRow:
    """One whole row of a file."""

    place: Place
    at: int
    """Where its line begins."""
    length: int
    """Bytes of its line without the line feed."""
    row: bytes
    """The row; of a long one only its end."""
    long: bool = False
    cut: bool = False
    """Of a long row: whether its answer stopped at the token limit."""


@dataclass(frozen=True, slots=True)
class ScannedLines:
    """What some lines of a file hold."""

    rows: list[ScannedRow]
    offset: int
    """Behind the last line that was read."""
    damaged: int
    """Lines among them that hold something else than rows."""
    ended: bool
    """Whether there was no further line."""
    inode: int
    """Of the file that was read."""


def scan(path: Path, start: int, *, most: int, block: int = _BLOCK, held: int = HELD) -> ScannedLines:
    """The rows from an offset on, of about ``most`` bytes, at least of one line.

    What follows the last line feed is left for later: its writer may be at work. Raises `FileNotFoundError`.
    """
    rows: list[ScannedRow] = []
    offset, damaged, ended = start, 0, True
    with open(path, "rb", buffering=0, opener=disk.regular) as file:
        for at, length, line in _lines(file.fileno(), start, block, held):
            if line is None:
                long_row = _long_row(file.fileno(), at, length, block)
                found, rest = ([long_row], b"") if long_row is not None else ([], b"?")
            else:
                whole, rest = whole_rows(line)
                found = [ScannedRow(place, at, length, row) for row, place in whole]
            rows += found
            damaged += bool(rest)
            offset = at + length + 1
            if offset - start >= most:
                ended = False
                break
        inode = os.fstat(file.fileno()).st_ino
    return ScannedLines(rows, offset, damaged, ended, inode)


def _lines(descriptor: int, start: int, block: int, held: int) -> Iterator[tuple[int, int, bytes | None]]:
    """Where each line begins, its length, and its bytes unless it is longer than ``held``."""
    begun, at = start, start
    pieces: list[bytes] = []
    while data := os.pread(descriptor, block, at):
        first = 0
        while (end := data.find(b"\n", first)) >= 0:
            length = at + end - begun
            yield begun, length, b"".join((*pieces, data[first:end])) if length <= held else None
            pieces, first = [], end + 1
            begun = at + first
        at += len(data)
        if at - begun <= held:
            pieces.append(data[first:])
        else:
            pieces = []


def _long_row(descriptor: int, at: int, length: int, block: int) -> ScannedRow | None:
    """A row of ours that is too long to be held; ``None`` for damaged bytes and rows of other collectors."""
    body = length - SUFFIX
    identity = IDENTITY(os.pread(descriptor, _HEAD, at))
    summed, cut = _summed(descriptor, at, body, block)
    if identity is None or os.pread(descriptor, SUFFIX, at + body) != SUMMED % summed:
        return None
    tail = min(_TAIL, length)
    place = int(identity[1]), int(identity[2])
    return ScannedRow(place, at, length, os.pread(descriptor, tail, at + length - tail), long=True, cut=cut)


def _summed(descriptor: int, at: int, length: int, block: int) -> tuple[int, bool]:
    """The checksum of a stretch, and whether it holds the mark of a cut answer."""
    found, cut, before = 0, False, b""
    done = 0
    while done < length and (data := os.pread(descriptor, min(block, length - done), at + done)):
        found = crc32(data, found)
        before += data
        cut = cut or _CUT in before
        before = before[-len(_CUT) :]
        done += len(data)
    return found, cut
