"""The rows of the page Runs, in memory: filtered, sorted and counted by SQLite, 100,000 of them at once.

Observers put rows in; the page asks for some. A row whose content did not change changes nothing, so that
live pages are asked to look again only when there is something new.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from nemo_pages.runs.rows import RunRow, StateGroup
from nemo_pages.runs.view import VALUE, RunsView

_SCHEMA = """
CREATE TABLE run (
    key TEXT PRIMARY KEY, source TEXT, kind TEXT, state_group TEXT, name TEXT, state TEXT, rank INTEGER,
    progress REAL, measure REAL, cost REAL, submitted REAL, changed REAL, search TEXT, document TEXT
) WITHOUT ROWID;
CREATE TABLE tag (tag TEXT, key TEXT, PRIMARY KEY (tag, key)) WITHOUT ROWID;
CREATE INDEX tag_key ON tag (key);
CREATE INDEX run_group ON run (state_group, kind);
CREATE INDEX run_name ON run (name, key);
CREATE INDEX run_state ON run (rank, state, key);
CREATE INDEX run_progress ON run (progress, key);
CREATE INDEX run_measure ON run (measure, key);
CREATE INDEX run_cost ON run (cost, key);
CREATE INDEX run_submitted ON run (submitted, key);
CREATE INDEX run_changed ON run (changed, key);
CREATE TABLE value_name (source TEXT, name TEXT, PRIMARY KEY (name, source)) WITHOUT ROWID;
"""
_RANK: Final = {group: number for number, group in enumerate(StateGroup)}
_PUT = "INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
MOST_TAGS: Final = 200


@dataclass(frozen=True, slots=True)
class SourceState:
    """What one observer says of itself."""

    name: str
    """What it observes, as the page says it: ``evaluations``."""
    seen_at: float | None
    """UTC seconds at which it had last looked at everything; `None` while it looks for the first time."""
    problem: str = ""
    """Why it sees less than everything."""


@dataclass(frozen=True, slots=True)
class RunsAnswer:
    """A page of rows."""

    rows: tuple[RunRow, ...]
    total: int
    """Rows of the view."""
    counts: Mapping[StateGroup, int]
    """Rows of each group of states, of all that the rest of the view's filter leaves."""
    everything: int
    """Rows without any filter."""
    sources: tuple[SourceState, ...]


class RunTable:
    """Rows from any number of observers; every method can be called in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.executescript(_SCHEMA)
        self._sources: dict[str, SourceState] = {}
        self._version = 0
        self._counts: tuple[int, dict[str, int]] | None = None

    @property
    def version(self) -> str:
        """Changes whenever a row or what an observer says of itself does, but not with its time alone."""
        return str(self._version)

    def put(self, source: str, rows: Iterable[RunRow], *, complete: bool = False) -> None:
        """Add or replace rows of an observer; ``complete``: it has no others, and those are removed."""
        with self._lock:
            self._database.execute("BEGIN")
            changed = False
            kept: set[str] = set()
            for row in rows:
                kept.add(row.key)
                changed = self._put(source, row) or changed
            if complete:
                held = self._database.execute("SELECT key FROM run WHERE source = ?", (source,))
                changed = self._remove([key for (key,) in held if key not in kept]) or changed
            self._database.execute("COMMIT")
            self._version += changed

    def remove(self, keys: Iterable[str]) -> None:
        """Remove rows; a key without a row is passed over."""
        with self._lock:
            self._database.execute("BEGIN")
            changed = self._remove(list(keys))
            self._database.execute("COMMIT")
            self._version += changed

    def observed(self, state: SourceState) -> None:
        """Note when an observer looked, and what it could not see."""
        with self._lock:
            before = self._sources.get(state.name)
            self._sources[state.name] = state
            changed = before is None or before.problem != state.problem or before.seen_at is None
            self._version += changed

    def row(self, key: str) -> RunRow | None:
        """The row with a key."""
        found = self._read("SELECT document FROM run WHERE key = ?", (key,))
        return RunRow.load(json.loads(found[0][0])) if found else None

    def tags(self) -> list[tuple[str, int]]:
        """Tags and how many rows have each, the most frequent first."""
        found = self._read(
            "SELECT tag, count(*) FROM tag GROUP BY tag ORDER BY 2 DESC, 1 LIMIT ?", (MOST_TAGS,)
        )
        return [(str(tag), int(count)) for tag, count in found]

    def value_names(self) -> list[str]:
        """Names of values that any row ever had, sorted."""
        return [str(name) for (name,) in self._read("SELECT DISTINCT name FROM value_name ORDER BY name", ())]

    def answer(self, view: RunsView) -> RunsAnswer:
        """The rows of a view; a page behind the last one is empty."""
        where, values = _where(view)
        groups = f" AND state_group IN ({', '.join('?' * len(view.groups))})" if view.groups else ""
        order, order_values = _order(view)
        rows = self._read(
            f"SELECT document FROM run WHERE {where}{groups} {order} LIMIT ? OFFSET ?",  # noqa: S608 - placeholders
            (*values, *view.groups, *order_values, view.size, (view.page - 1) * view.size),
        )
        everything = self._all_counts()
        counts = everything if where == _ALL else self._group_counts(where, values)
        chosen = view.groups or tuple(StateGroup)
        return RunsAnswer(
            rows=tuple(RunRow.load(json.loads(document)) for (document,) in rows),
            total=sum(counts.get(group, 0) for group in chosen),
            counts={group: counts.get(group, 0) for group in StateGroup},
            everything=sum(everything.values()),
            sources=tuple(self._sources.values()),
        )

    def _all_counts(self) -> dict[str, int]:
        version, known = self._version, self._counts
        if known is None or known[0] != version:
            known = (version, self._group_counts(_ALL, ()))
            self._counts = known
        return known[1]

    def _group_counts(self, where: str, values: Sequence[str]) -> dict[str, int]:
        statement = f"SELECT state_group, count(*) FROM run WHERE {where} GROUP BY state_group"  # noqa: S608
        return {str(group): int(count) for group, count in self._read(statement, values)}

    def _read(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock, closing(self._database.execute(statement, values)) as found:
            return found.fetchall()

    def _put(self, source: str, row: RunRow) -> bool:
        document = json.dumps(row.document(), ensure_ascii=False, separators=(",", ":"))
        held = self._database.execute("SELECT document FROM run WHERE key = ?", (row.key,)).fetchone()
        if held is not None and held[0] == document:
            return False
        self._database.execute(_PUT, (*_cells(source, row), document))
        self._database.execute("DELETE FROM tag WHERE key = ?", (row.key,))
        self._database.executemany(
            "INSERT OR IGNORE INTO tag VALUES (?, ?)", [(t, row.key) for t in row.tags]
        )
        self._database.executemany(
            "INSERT OR IGNORE INTO value_name VALUES (?, ?)", [(source, name) for name in row.values]
        )
        return True

    def _remove(self, keys: Sequence[str]) -> bool:
        before = self._database.total_changes
        self._database.executemany("DELETE FROM run WHERE key = ?", [(key,) for key in keys])
        self._database.executemany("DELETE FROM tag WHERE key = ?", [(key,) for key in keys])
        return self._database.total_changes != before


_ALL = "1"


def _cells(source: str, row: RunRow) -> tuple[object, ...]:
    progress = None
    if row.progress is not None and row.progress.total:
        progress = row.progress.done / row.progress.total
    searched = [row.name, row.run, row.state, row.reason, row.note, *row.tags, *map(str, row.values.values())]
    return (
        row.key,
        source,
        row.kind,
        row.group,
        row.name.casefold(),
        row.state,
        _RANK[row.group],
        progress,
        row.measure.value if row.measure is not None else None,
        row.cost.amount if row.cost is not None else None,
        row.submitted_at,
        row.changed_at,
        "\n".join(searched).casefold(),
    )


def _where(view: RunsView) -> tuple[str, list[str]]:
    parts: list[str] = []
    values: list[str] = []
    if view.kinds:
        parts.append(f"kind IN ({', '.join('?' * len(view.kinds))})")
        values += view.kinds
    for tag in view.tags:
        parts.append("key IN (SELECT key FROM tag WHERE tag = ?)")
        values.append(tag)
    for word in view.text.casefold().split():
        parts.append("instr(search, ?) > 0")
        values.append(word)
    return " AND ".join(parts) or _ALL, values


def _order(view: RunsView) -> tuple[str, list[str]]:
    """The order of a view; rows without the value come last, whichever way it goes."""
    direction = "DESC" if view.falls else "ASC"
    name, values = view.sorted_by, []
    if name == "state":
        return f"ORDER BY rank {direction}, state {direction}, key {direction}", []
    if name.startswith(VALUE):
        name = "json_extract(document, ?)"
        values = [f"$.values.{json.dumps(view.sorted_by.removeprefix(VALUE))}"]
    if name in ("name", "submitted"):
        return f"ORDER BY {name} {direction}, key {direction}", values
    last = "NULLS LAST"
    return f"ORDER BY {name} {direction} {last}, key {direction}", values
