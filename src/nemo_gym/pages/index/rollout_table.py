"""The rollouts of one output as a table that grows with its files, kept in the user's cache folder.

It is a cache: losing it costs one reading of the files. What was read is never read again, until a file is
replaced or cut. Two processes may share a table: each change is made only where the other made none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from nemo_gym.pages.index.file_marks import ABSENT, FileMark
from nemo_gym.pages.index.row_scan import Place, ScannedRow
from nemo_gym.rollouts.reading.row_facts import RowFacts
from nemo_runs import homes

_SCHEMA: Final = 2
_TABLES: Final = """
create table if not exists files (
    name text primary key, inode int, size int, mtime_ns int, offset int, head int, tail int, seen real
) without rowid;
create table if not exists rollouts (
    task int, repeat int, outcome text, reward real, truncated int not null default 0, latency_ms real,
    tokens int, failed_attempts int not null default 0,
    result_at int, result_length int, answer_at int, answer_length int, primary key (task, repeat)
) without rowid;
create index if not exists by_outcome on rollouts (outcome, truncated);
create index if not exists by_latency on rollouts (latency_ms);
create table if not exists failures (
    task int, repeat int, at int, length int, class text, primary key (task, repeat, at)
) without rowid;
create table if not exists inputs (
    task int, repeat int, at int, length int, primary key (task, repeat)
) without rowid;
create table if not exists fields (names text);
create table if not exists groups (field text, value text, task int, primary key (field, value, task))
without rowid;
"""
_BUSY: Final = 20.0
"""Seconds to wait for another process that is writing."""


def tables_folder() -> Path:
    """Where tables are kept between two starts."""
    return homes.base("XDG_CACHE_HOME", ".cache", os.environ) / "nemo-gym" / "rollouts"


class ChangedElsewhereError(Exception):
    """Another process has read the same file meanwhile."""


class RolloutTable:
    """The table of one output; for any number of threads."""

    def __init__(self, output: Path, folder: Path | None) -> None:
        """``folder``: where it is kept; ``None``: in memory. So it is too where nothing can be written."""
        self._lock = threading.RLock()
        self._path: Path | None = None
        if folder is not None:
            name = hashlib.sha256(os.fsencode(output.absolute())).hexdigest()[:32]
            self._path = folder / f"{name}.sqlite"
        self._open = _opened(self._path)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for queries."""
        with self._lock:
            yield self._open

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._open.close()

    def mark(self, name: str) -> tuple[FileMark, float]:
        """How far a file was read, and when that was: UTC seconds."""
        with self.reading() as database:
            row = database.execute("select * from files where name = ?", (name,)).fetchone()
        return (ABSENT, 0.0) if row is None else (FileMark(*row[1:7]), float(row[7]))

    @contextlib.contextmanager
    def _changing(self, name: str, before: FileMark) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._open.execute("begin immediate")
            try:
                self._refuse_changed(name, before)
                yield self._open
            except BaseException:
                self._open.execute("rollback")
                raise
            self._open.execute("commit")

    def _refuse_changed(self, name: str, before: FileMark) -> None:
        if self.mark(name)[0] != before:
            raise ChangedElsewhereError

    def add_results(
        self, before: FileMark, after: FileMark, at: float, found: Sequence[tuple[ScannedRow, RowFacts]]
    ) -> None:
        """Add results; the first one of a rollout counts."""
        rows = [
            {**asdict(facts), **_place(row.place), "at": row.at, "length": row.length} for row, facts in found
        ]
        with self._changing("results", before) as database:
            database.executemany(
                "insert into rollouts (task, repeat, outcome, reward, truncated, latency_ms, tokens,"
                " result_at, result_length) values (:task, :repeat, :outcome, :reward, :truncated,"
                " :latency_ms, :tokens, :at, :length) on conflict (task, repeat) do update set"
                " outcome = excluded.outcome, reward = excluded.reward, truncated = excluded.truncated,"
                " latency_ms = excluded.latency_ms, tokens = excluded.tokens,"
                " result_at = excluded.result_at, result_length = excluded.result_length"
                " where result_at is null",
                rows,
            )
            _note(database, "results", after, at)

    def add_answers(self, before: FileMark, after: FileMark, at: float, found: Sequence[ScannedRow]) -> None:
        """Add stored answers, which count while their rollout has no result."""
        with self._changing("answers", before) as database:
            database.executemany(
                "insert into rollouts (task, repeat, outcome, answer_at, answer_length)"
                " values (:task, :repeat, 'not graded yet', :at, :length)"
                " on conflict (task, repeat) do update set"
                " outcome = iif(result_at is null, excluded.outcome, outcome),"
                " answer_at = excluded.answer_at, answer_length = excluded.answer_length"
                " where answer_at is null",
                map(_span, found),
            )
            _note(database, "answers", after, at)

    def add_failures(
        self, before: FileMark, after: FileMark, at: float, found: Sequence[tuple[ScannedRow, str]]
    ) -> None:
        """Add failed attempts, each with its class."""
        rows = [{**_span(row), "class": failure_class} for row, failure_class in found]
        with self._changing("failures", before) as database:
            database.executemany(
                "insert into failures values (:task, :repeat, :at, :length, :class) on conflict do nothing",
                rows,
            )
            database.executemany(
                "insert into rollouts (task, repeat, outcome, failed_attempts)"
                " values (:task, :repeat, 'failed', 1)"
                " on conflict (task, repeat) do update set failed_attempts = failed_attempts + 1",
                rows,
            )
            _note(database, "failures", after, at)

    def add_inputs(
        self,
        before: FileMark,
        after: FileMark,
        at: float,
        found: Sequence[ScannedRow],
        groups: Sequence[tuple[str, str, int]],
    ) -> None:
        """Add rows as they were materialized, and the groups of their tasks: field, value, task."""
        with self._changing("inputs", before) as database:
            database.executemany(
                "insert into inputs values (:task, :repeat, :at, :length) on conflict do nothing",
                map(_span, found),
            )
            database.executemany("insert into groups values (?, ?, ?) on conflict do nothing", groups)
            _note(database, "inputs", after, at)

    def fields(self) -> tuple[str, ...]:
        """The fields that tasks are grouped by."""
        with self.reading() as database:
            row = database.execute("select names from fields").fetchone()
        return tuple(row[0].split("\n")) if row is not None and row[0] else ()

    def group_by(self, fields: Sequence[str]) -> None:
        """Say which fields tasks are grouped by; where they are others, the inputs are read again."""
        names = "\n".join(fields)
        with self._lock:
            known = self._open.execute("select names from fields").fetchone()
            if known == (names,):
                return
            with contextlib.suppress(ChangedElsewhereError):
                self.forget("inputs", self.mark("inputs")[0])
            self._open.execute("delete from fields")
            self._open.execute("insert into fields values (?)", (names,))

    def forget(self, name: str, before: FileMark) -> None:
        """Forget what a file said, which was replaced or cut, to read it again."""
        with self._changing(name, before) as database:
            for statement in _FORGET[name]:
                database.execute(statement)
            database.execute("delete from files where name = ?", (name,))


_UNKNOWN: Final = "delete from rollouts where result_at is null and answer_at is null and failed_attempts = 0"
_FORGET: Final = {
    "results": (
        """update rollouts set result_at = null, result_length = null, reward = null, truncated = 0,
        latency_ms = null, tokens = null, outcome = iif(answer_at is null, 'failed', 'not graded yet')""",
        _UNKNOWN,
    ),
    "answers": (
        """update rollouts set answer_at = null, answer_length = null,
        outcome = iif(result_at is null, 'failed', outcome)""",
        _UNKNOWN,
    ),
    "failures": ("delete from failures", "update rollouts set failed_attempts = 0", _UNKNOWN),
    "inputs": ("delete from inputs", "delete from groups"),
}


def _opened(path: Path | None) -> sqlite3.Connection:
    """The database, made again where it cannot be read; in memory where none can be made."""
    for _ in range(2):
        if path is None:
            break
        with contextlib.suppress(OSError, sqlite3.Error):
            return _connected(path)
        with contextlib.suppress(OSError):
            path.unlink()
    return _connected(None)


def _connected(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = ":memory:" if path is None else str(path)
    found = sqlite3.connect(name, timeout=_BUSY, isolation_level=None, check_same_thread=False)
    try:
        found.execute("pragma synchronous = off")  # losing it costs nothing but time
        _refuse_other_version(found.execute("pragma user_version").fetchone()[0])
        found.executescript(_TABLES)
        found.execute(f"pragma user_version = {_SCHEMA}")
        found.execute("select count(*) from files").fetchone()
    except BaseException:
        found.close()
        raise
    return found


def _refuse_other_version(version: int) -> None:
    if version not in (0, _SCHEMA):
        raise sqlite3.DatabaseError(f"a table of version {version}")


def _note(database: sqlite3.Connection, name: str, mark: FileMark, at: float) -> None:
    database.execute(
        "insert or replace into files values (?, ?, ?, ?, ?, ?, ?, ?)", (name, *asdict(mark).values(), at)
    )


def _place(place: Place) -> dict[str, int]:
    return {"task": place[0], "repeat": place[1]}


def _span(row: ScannedRow) -> dict[str, Any]:
    return {**_place(row.place), "at": row.at, "length": row.length}
