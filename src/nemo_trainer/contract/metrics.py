"""``metrics.jsonl``: append-only rows of values, and rows that say from which step training was continued.

A continue row makes a reader drop every point of a later step: those steps are trained again. So each step
appears once, however often training was interrupted, and no byte of the file is ever rewritten. Rows of a
generation behind the first row of a later one are those of a process that outlived its replacement: no reader
gets them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from nemo_runs.durable.disk import open_regular
from nemo_trainer.contract import generations
from nemo_trainer.contract.generations import is_current

_LARGEST_STEP = 1 << 53
_LONGEST_ROW = 16 << 20
"""Bytes; what has no newline for so long is not a file of rows."""
_MOST = 4 << 20
"""Bytes that one `MetricTail.read` takes at most, so that a long absence is caught up in pieces."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """Values that were measured at one step; the same step may have several rows with different names."""

    step: int
    """Number of finished steps, from 1."""
    time: float
    attempt: str
    values: Mapping[str, float] = field(default_factory=dict)
    epoch: float | None = None
    generation: int = 0
    """The generation that wrote it, see `nemo_trainer.contract.generations`; 0: none is named."""

    def finite(self) -> MetricRow:
        """The same without what is not a finite number."""
        return replace(self, values={name: point for name, point in self.values.items() if is_finite(point)})

    def to_line(self) -> bytes:
        """The row as it is in the file, without its newline; what is not a finite number is left out."""
        row = {"step": self.step, "epoch": self.epoch, "time": self.time, "attempt": self.attempt}
        values = dict(self.finite().values)
        return _to_line({**row, "values": values}, self.generation)


@dataclass(frozen=True, slots=True)
class ContinueRow:
    """Training goes on after a step; points of later steps, written before this row, no longer count."""

    continue_from: int
    """The step of the checkpoint; 0 = from the beginning."""
    attempt: str
    task: str
    time: float
    generation: int = 0

    def to_line(self) -> bytes:
        """The row as it is in the file, without its newline."""
        row = {
            "continue_from": self.continue_from,
            "attempt": self.attempt,
            "task": self.task,
            "time": self.time,
        }
        return _to_line(row, self.generation)


Row = MetricRow | ContinueRow

_RESTARTED = ContinueRow(0, "", "", 0.0)


class Tailed(NamedTuple):
    """What `MetricTail.read` found."""

    rows: list[Row]
    offset: int
    """Just behind the last whole line: where to read next."""


def is_finite(value: object) -> bool:
    """Whether something can be a point of a curve: a finite real number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def parse_row(line: bytes) -> Row | None:
    """One line of the file; `None` for what is neither kind of row."""
    try:
        value = json.loads(line)
        generation = _count(value.get("generation", 0))
        if "continue_from" in value:
            step, task = _count(value["continue_from"]), str(value.get("task", ""))
            return ContinueRow(step, str(value["attempt"]), task, float(value["time"]), generation)
        return MetricRow(
            step=_count(value["step"]),
            time=float(value["time"]),
            attempt=str(value["attempt"]),
            values={str(name): float(point) for name, point in value["values"].items() if is_finite(point)},
            epoch=float(value["epoch"]) if is_finite(value.get("epoch")) else None,
            generation=generation,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class MetricTail:
    """A place in a metrics file; the file only grows, so an offset stays right."""

    path: Path
    offset: int = 0
    within: Path | None = None
    """The folder in which the file must lie, whatever links lead to it; `None`: anywhere."""

    def read(self, most: int = _MOST) -> Tailed:
        """The whole rows from here on, and where to go on; lines of no known kind are passed over.

        Takes about ``most`` bytes, more only for a single longer line, and of that not without end; a missing
        file, and what is none, has no rows. A file
        that is shorter than it was (the machine lost power before its last rows were on the disk) is read
        again from its beginning, behind a continue row from step 0.
        """
        try:
            descriptor = open_regular(self.path, within=self.within)
        except OSError:
            return Tailed([], self.offset)
        try:
            again = self.offset > 0 and os.pread(descriptor, 1, self.offset - 1) != b"\n"
            start = 0 if again else self.offset
            data = _whole_lines(descriptor, start, most)
        finally:
            os.close(descriptor)
        rows = [row for line in data.split(b"\n") if line and (row := parse_row(line)) is not None]
        rows = self._of_writers(rows, start)
        return Tailed([_RESTARTED, *rows] if again else rows, start + len(data))

    def _of_writers(self, rows: list[Row], offset: int) -> list[Row]:
        """Rows read from an offset on, without those of a generation that another had taken over from."""
        if is_current(self.path.parent, min((row.generation for row in rows), default=0)):
            return rows
        ruling = generations.ruling(self.path.parent, self.path.name, offset, within=self.within)
        kept = []
        for row in rows:
            ruling = max(ruling, row.generation)
            if row.generation == ruling:
                kept.append(row)
        return kept


def history(path: Path) -> list[MetricRow]:
    """Every step once, in order, with all its values, as of now.

    ``path`` is the ``metrics.jsonl`` that all share; where generations have their own, the newest counts.
    """
    steps: dict[int, MetricRow] = {}
    path, offset = generations.newest_file(path), 0
    while True:
        rows, behind = MetricTail(path, offset).read()
        if behind == offset:
            return [steps[step] for step in sorted(steps)]
        offset = behind
        for row in rows:
            steps = merged(steps, row)


def merged(steps: dict[int, MetricRow], row: Row) -> dict[int, MetricRow]:
    """The steps after one more row was read; may change and return the one given."""
    if isinstance(row, ContinueRow):
        return {step: kept for step, kept in steps.items() if step <= row.continue_from}
    before = steps.get(row.step)
    values = {**before.values, **row.values} if before else row.values
    steps[row.step] = replace(row, values=values)
    return steps


def _to_line(row: Mapping[str, Any], generation: int) -> bytes:
    known = {**row, "generation": generation} if generation else row
    return json.dumps(known, separators=(",", ":")).encode("ascii")


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST_STEP:
        raise ValueError(value)
    return value


def _whole_lines(descriptor: int, offset: int, most: int) -> bytes:
    data = b""
    while block := os.pread(descriptor, most, offset + len(data)):
        data += block
        if (end := data.rfind(b"\n")) >= 0:
            return data[: end + 1]
        if len(data) > _LONGEST_ROW:
            break
    return b""
