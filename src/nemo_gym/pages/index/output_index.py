"""What is known of one output of a collector: read in slices as it grows, asked by pages at any time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.pages.index import rollout_query as queries
from nemo_gym.pages.index.file_marks import ABSENT, FileMark, is_unchanged, mark_of, only_grew
from nemo_gym.pages.index.rollout_query import RolloutEntry
from nemo_gym.pages.index.rollout_table import ChangedElsewhereError, RolloutTable
from nemo_gym.pages.index.row_scan import HELD, Place, ScannedRow, scan
from nemo_gym.rollouts.reading.located import LocatedRollouts
from nemo_gym.rollouts.reading.recorded import RecordedRollout, RolloutReader
from nemo_gym.rollouts.reading.row_facts import RowFacts, facts_of, facts_of_end
from nemo_gym.rollouts.scores.group_scores import members

SLICE: Final = 64_000_000
"""Bytes that one call of `OutputIndex.read_on` reads of each file."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ReadingState:
    """How far the files of an output were read."""

    done: int
    """Bytes."""
    size: int
    """Bytes that there were when it was looked last."""
    seen_at: float
    """When the files were looked at last, all of them: UTC seconds; 0: never."""

    @property
    def whole(self) -> bool:
        """Whether everything was read that was there."""
        return self.seen_at > 0


class RolloutGoneError(Exception):
    """A rollout that is no longer where the files had it: they were replaced since they were observed."""


class OutputIndex:
    """The rollouts of one output."""

    def __init__(
        self, paths: RolloutPaths, folder: Path | None, group_by: Sequence[str] | None = None
    ) -> None:
        self.paths = paths
        self._table = RolloutTable(paths.output, folder)
        self._files = {
            "inputs": paths.materialized_inputs,
            "results": paths.output,
            "answers": paths.answers,
            "failures": paths.failures,
        }
        self._reading = threading.Lock()
        self._size = 0
        self._seen: dict[str, float] = {}
        self._group_by = self._table.fields()
        if group_by is not None:
            self.group_by(group_by)

    def group_by(self, fields: Sequence[str]) -> None:
        """Group tasks by these fields of their rows from now on."""
        with self._reading:
            self._group_by = tuple(fields)
            self._table.group_by(self._group_by)

    def close(self) -> None:
        """Close the table."""
        self._table.close()

    def read_on(self, now: float, *, most: int = SLICE) -> bool:
        """Read what is new, of each file about ``most`` bytes; whether all was read. ``now``: UTC seconds.

        One thread at a time reads. A file that cannot be read raises `OSError`.
        """
        with self._reading:
            self._size = sum(_size(path) for path in self._files.values())
            whole = [self._read(name, path, now, most) for name, path in self._files.items()]
        return all(whole)

    def state(self) -> ReadingState:
        """How far the files were read, without looking at them."""
        marks = {name: self._table.mark(name) for name in self._files}
        done = sum(mark.offset for mark, _ in marks.values())
        stored = [at for mark, at in marks.values() if mark != ABSENT]
        seen = min(stored, default=0.0) if marks["results"][0] != ABSENT else 0.0
        if len(self._seen) == len(self._files):
            seen = min(self._seen.values())
        return ReadingState(done, max(done, self._size), seen)

    def ask(self, query: Callable[..., Answer], *args: Any) -> Answer:
        """What one of `nemo_gym.pages.index.rollout_query` says of this output."""
        with self._table.reading() as database:
            return query(database, *args)

    def rollout(self, entry: RolloutEntry) -> RecordedRollout:
        """Read one rollout, as `gym job show` reads it; at most `HELD` bytes a row.

        Raises `RolloutGoneError` where its row is not there any more.
        """
        place = entry.place
        failures = self.ask(queries.failure_places, place)
        planned = self.ask(queries.input_place, place)
        located = LocatedRollouts(
            self.paths,
            _at(place, entry.result_at, entry.result_length),
            {place: [at for at, length in failures if length <= HELD]},
            _at(place, entry.answer_at, entry.answer_length),
            _at(place, *planned) if planned is not None else {},
        )
        found = next(RolloutReader(located).read([place]))
        if (found.outcome == "failed") != (entry.outcome == "failed"):
            raise RolloutGoneError(f"task {entry.task}, repeat {entry.repeat}")
        return found

    def _read(self, name: str, path: Path, now: float, most: int) -> bool:
        """Read one file on; whether it was read to its end."""
        before, seen_at = self._table.mark(name)
        if is_unchanged(path, before) and (seen_at or not before.inode):
            self._seen[name] = now
            return True
        try:
            if not only_grew(path, before):
                self._table.forget(name, before)
                before = ABSENT
            return self._add(name, path, before, now, most)
        except FileNotFoundError:
            return False  # gone since it was looked at
        except ChangedElsewhereError:
            return False

    def _add(self, name: str, path: Path, before: FileMark, now: float, most: int) -> bool:
        found = scan(path, before.offset, most=most)
        after = mark_of(path, found.offset)
        if after.inode != found.inode:
            return False  # replaced meanwhile
        at = self._seen[name] = now if found.ended else 0.0
        table = self._table
        match name:
            case "results":
                table.add_results(before, after, at, [(row, _facts(row)) for row in found.rows])
            case "answers":
                table.add_answers(before, after, at, found.rows)
            case "failures":
                table.add_failures(before, after, at, [(row, _class(row)) for row in found.rows])
            case _:
                table.add_inputs(before, after, at, found.rows, self._groups(found.rows))
        return found.ended

    def _groups(self, rows: Sequence[ScannedRow]) -> list[tuple[str, str, int]]:
        found = []
        for row in rows if self._group_by else ():
            if row.place[1] == 0 and not row.long:
                values = orjson.loads(row.row)
                found += [
                    (by, value, row.place[0]) for by in self._group_by for value in members([values], by)
                ]
        return found


def _at(place: Place, at: int | None, length: int | None) -> dict[Place, int]:
    return {} if at is None or length is None or length > HELD else {place: at}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _facts(row: ScannedRow) -> RowFacts:
    return facts_of_end(row.row, cut=row.cut) if row.long else facts_of(row.row)


def _class(row: ScannedRow) -> str:
    try:
        return str(orjson.loads(row.row).get("_ng_failure_class"))
    except ValueError:
        return "unknown"
