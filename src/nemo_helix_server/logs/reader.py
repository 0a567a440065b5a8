"""Log lines of jobs, in pages: over the files that shims write, by attempt, step and task.

A position is (task, part of its log, byte in the part); a cursor is a position as text. A part that was
removed meanwhile, because a log is bounded, moves a position to the oldest line that is left.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nemo_helix_server.errors import InvalidError, MalformedRequestError
from nemo_helix_server.storage.log_parts import LogPart, RunLog

LONGEST_PAGE = 10_000
_BLOCK = 1 << 16
_LONGEST_ROW = 4 << 20
"""Bytes; the shim writes no row that comes near it, so a longer one is passed over, and never kept whole."""
_LAST_SECOND = 253_402_300_799
"""Of the year 9999."""
_NEWEST = 1 << 62
"""Sorts behind every number of an older part."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """The log of one task; a list of them is in the order in which the tasks ran."""

    attempt_id: str
    step: str
    task: str
    log: RunLog


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log."""

    at: float
    """Seconds since the epoch."""
    stream: str
    """``out`` or ``err``."""
    message: str
    step: str
    task: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some lines, and where to go on."""

    lines: tuple[Line, ...]
    total: int
    """How many lines there are in all."""
    next_page: str | None
    """The cursor behind the last line, when more is there already."""
    prev_page: str | None
    """The cursor of the page before."""
    end: str
    """The cursor behind the last line, whether more is there or not: where a follower goes on."""


class _Position(NamedTuple):
    source: int
    part: int
    offset: int


class _Part(NamedTuple):
    source: int
    file: LogPart

    @property
    def number(self) -> int:
        return self.file.number

    @property
    def size(self) -> int:
        return self.file.size


class Logs:
    """Reads the logs; one object a service, since it remembers how many lines there were."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, tuple[int, int]] = {}
        """By a file's identity: bytes counted, and the lines in them."""

    def page(
        self,
        sources: Sequence[LogSource],
        *,
        limit: int | None = None,
        cursor: str | None = None,
        tail: int | None = None,
    ) -> LogPage:
        """A page from a cursor, from the beginning, or of the last ``tail`` lines.

        Raises `MalformedRequestError` for ``tail`` together with another and for numbers out of range, and
        `InvalidError` for a cursor that is none.
        """
        if tail is not None and (limit is not None or cursor is not None):
            raise MalformedRequestError("tail cannot be combined with limit or page_cursor; leave one out")
        wanted = limit if limit is not None else tail if tail is not None else 100
        if not 1 <= wanted <= LONGEST_PAGE:
            raise MalformedRequestError(
                f"{wanted} is not a number of lines; it must be from 1 to {LONGEST_PAGE}"
            )
        with _opened(sources) as parts:
            if tail is not None:
                start = _back(parts, _behind(parts), wanted)
            else:
                start = _position(cursor, sources) if cursor else _Position(0, 0, 0)
            return self._page(parts, sources, start, wanted)

    def _page(
        self, parts: Sequence[_Part], sources: Sequence[LogSource], start: _Position, wanted: int
    ) -> LogPage:
        lines, end = _forward(parts, sources, start, wanted)
        before = _back(parts, start, wanted)
        more = any(part.size and (part.source, part.number, part.size) > end for part in parts)
        return LogPage(
            lines=tuple(lines),
            total=sum(self._count(part) for part in parts),
            next_page=_cursor(end, sources) if more else None,
            prev_page=_cursor(before, sources) if before < start and parts else None,
            end=_cursor(end, sources),
        )

    def _count(self, part: _Part) -> int:
        counted, lines = self._counts.get(part.file.identity, (0, 0))
        if counted > part.size:
            counted = lines = 0
        while counted < part.size and (block := part.file.read(_BLOCK, counted)):
            counted += len(block)
            lines += block.count(b"\n")
        self._counts[part.file.identity] = (counted, lines)
        return lines


@contextlib.contextmanager
def _opened(sources: Sequence[LogSource]) -> Iterator[list[_Part]]:
    """Every part of every log, oldest first, cut behind its last whole line."""
    parts: list[_Part] = []
    try:
        for index, source in enumerate(sources):
            parts += [_Part(index, file) for file in source.log.parts()]
        yield parts
    finally:
        for part in parts:
            part.file.close()


def _behind(parts: Sequence[_Part]) -> _Position:
    return _Position(parts[-1].source, parts[-1].number, parts[-1].size) if parts else _Position(0, 0, 0)


def _forward(
    parts: Sequence[_Part], sources: Sequence[LogSource], start: _Position, wanted: int
) -> tuple[list[Line], _Position]:
    lines: list[Line] = []
    end = start
    for part in parts:
        if (part.source, part.number) < start[:2] or len(lines) >= wanted:
            continue
        offset = start.offset if (part.source, part.number) == start[:2] else 0
        for raw, behind in _rows(part, min(offset, part.size)):
            if len(lines) >= wanted:
                break
            if (line := _line(raw, sources[part.source])) is not None:
                lines.append(line)
            end = _Position(part.source, part.number, behind)
    return lines, end


def _rows(part: _Part, offset: int) -> Iterator[tuple[bytes, int]]:
    """Rows from an offset on, each with the offset behind it."""
    rest = b""
    at = offset
    passed = 0  # bytes of a row that is too long
    while (behind := at + passed + len(rest)) < part.size:
        block = part.file.read(min(_BLOCK, part.size - behind), behind)
        if not block:
            return
        *rows, rest = (rest + block).split(b"\n")
        for row in rows:
            at += passed + len(row) + 1
            yield b"" if passed else row, at
            passed = 0
        if passed or len(rest) > _LONGEST_ROW:
            passed, rest = passed + len(rest), b""


def _back(parts: Sequence[_Part], start: _Position, wanted: int) -> _Position:
    """The position so many lines before another, or the oldest."""
    for part in reversed(parts):
        if (part.source, part.number) > start[:2]:
            continue
        here = (part.source, part.number) == start[:2]
        end = min(start.offset, part.size) if here else part.size
        offset, found = _back_in(part.file, end, wanted)
        wanted -= found
        if wanted <= 0:
            return _Position(part.source, part.number, offset)
    first = parts[0] if parts else None
    return _Position(first.source, first.number, 0) if first else _Position(0, 0, 0)


def _back_in(file: LogPart, end: int, wanted: int) -> tuple[int, int]:
    """Where the last ``wanted`` lines before ``end`` begin, and how many there are of them."""
    found = 0
    position = end
    while position:
        start = max(0, position - _BLOCK)
        block = file.read(position - start, start)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            if start + at + 1 == end:
                continue
            found += 1
            if found == wanted:
                return start + at + 1, found
        position = start
    return 0, found + (1 if end else 0)


def _line(raw: bytes, source: LogSource) -> Line | None:
    try:
        value = json.loads(raw)
        at = float(value["t"])
        if not 0 <= at <= _LAST_SECOND:
            return None
        return Line(at, _text(value["s"]), _text(value["m"]), source.step, source.task)
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _text(value: object) -> str:
    """A text that can be written down again: a workload may have put anything into its log's file."""
    return str(value).encode("utf-8", "replace").decode()


def _cursor(position: _Position, sources: Sequence[LogSource]) -> str:
    task = sources[position.source].task if sources else ""
    text = json.dumps([task, position.part, position.offset])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _position(cursor: str, sources: Sequence[LogSource]) -> _Position:
    try:
        task, part, offset = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        index = next((index for index, source in enumerate(sources) if source.task == task), 0)
        if not (0 <= part <= _NEWEST and 0 <= offset <= _NEWEST):
            raise ValueError(cursor)  # noqa: TRY301 - one funnel for all that is not a cursor
        return _Position(index, int(part), int(offset))
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise InvalidError("the page cursor is not one of this job's logs; start again without it") from error
