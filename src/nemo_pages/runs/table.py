"""The rows of the page Runs, in memory: filtered, sorted and counted by SQLite, 100,000 of them at once.

Observers put rows in; the page asks for some. A row whose content did not change changes nothing, so that
live pages are asked to look again only when there is something new.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import orjson

from nemo_pages.runs.rows import RunRow, StateGroup
from nemo_pages.runs.view import VALUE, RunsView
from nemo_pages.runs.visibility import ALL_ROWS, EVERYTHING, RunVisibility

Found = TypeVar("Found")
_SCHEMA: Final = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY, key TEXT UNIQUE, source TEXT, workspace TEXT, kind TEXT, state_group TEXT,
    name TEXT, state TEXT, rank INTEGER, progress REAL, measure REAL, cost REAL, submitted REAL, changed REAL,
    search TEXT
);
CREATE TABLE document (id INTEGER PRIMARY KEY, content BLOB);
CREATE TABLE tag (tag TEXT, id INTEGER, PRIMARY KEY (tag, id)) WITHOUT ROWID;
CREATE TABLE value (name TEXT, id INTEGER, content, PRIMARY KEY (name, id)) WITHOUT ROWID;
CREATE TABLE value_name (name TEXT, workspace TEXT, PRIMARY KEY (name, workspace)) WITHOUT ROWID;
CREATE INDEX run_source ON run (source, key);
CREATE INDEX run_kind ON run (kind, state_group);
CREATE INDEX run_workspace ON run (workspace, state_group);
CREATE INDEX run_workspace_submitted ON run (workspace, submitted);
CREATE INDEX run_group ON run (state_group, submitted);
CREATE INDEX run_name ON run (name);
CREATE INDEX run_state ON run (rank, state);
CREATE INDEX run_progress ON run (progress);
CREATE INDEX run_measure ON run (measure);
CREATE INDEX run_cost ON run (cost);
CREATE INDEX run_submitted ON run (submitted);
CREATE INDEX run_changed ON run (changed);
CREATE INDEX tag_id ON tag (id);
CREATE INDEX value_id ON value (id);
"""
_PUT: Final = """
INSERT INTO run VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
    source = excluded.source, workspace = excluded.workspace, kind = excluded.kind,
    state_group = excluded.state_group, name = excluded.name, state = excluded.state, rank = excluded.rank,
    progress = excluded.progress, measure = excluded.measure, cost = excluded.cost,
    submitted = excluded.submitted, changed = excluded.changed, search = excluded.search
RETURNING id
"""
_RANK: Final = {group: number for number, group in enumerate(StateGroup)}
_PARTS: Final = ("document", "tag", "value")
MOST_TAGS: Final = 200
MOST_NAMES: Final = 300
_AT_ONCE: Final = 500
"""Rows that are put in before pages that wait get their turn."""


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
        self._versions: Counter[str] = Counter()
        """Of the rows of each workspace."""
        self._said = 0
        """Changes with what observers say of themselves."""
        self._known: dict[tuple[str, RunVisibility], tuple[str, Any]] = {}
        """Answers that take long among very many rows, each with the version that it is of."""

    @property
    def version(self) -> str:
        """Changes whenever a row or what an observer says of itself does, but not with its time alone."""
        return self.version_for(EVERYTHING)

    def version_for(self, visibility: RunVisibility) -> str:
        """The same of the rows that somebody sees, and it says nothing of others."""
        seen = sum(number for name, number in self._versions.copy().items() if visibility.includes(name))
        return f"{seen}-{self._said}"

    def put(self, source: str, rows: Iterable[RunRow], *, complete: bool = False) -> None:
        """Add or replace rows of an observer; ``complete``: it has no others, and those are removed."""
        kept: set[str] = set()
        left = iter(rows)
        while some := list(itertools.islice(left, _AT_ONCE)):
            kept.update(row.key for row in some)
            with self._lock:
                self._database.execute("BEGIN")
                changed = [row for row in some if self._put(source, row)]
                self._database.execute("COMMIT")
                self._versions.update({row.workspace for row in changed})
        if complete:
            held = self._read("SELECT key FROM run WHERE source = ?", (source,))
            self.remove([key for (key,) in held if key not in kept])

    def remove(self, keys: Sequence[str]) -> None:
        """Remove rows; a key without a row is passed over."""
        with self._lock:
            self._database.execute("BEGIN")
            removed = [self._remove(key) for key in keys]
            self._database.execute("COMMIT")
            self._versions.update({workspace for workspace in removed if workspace is not None})

    def observed(self, state: SourceState) -> None:
        """Note when an observer looked, and what it could not see."""
        with self._lock:
            before = self._sources.get(state.name)
            self._sources[state.name] = state
            changed = before is None or before.problem != state.problem or before.seen_at is None
            self._said += changed

    def row(self, key: str) -> RunRow | None:
        """The row with a key."""
        found = self._read("SELECT content FROM document JOIN run USING (id) WHERE key = ?", (key,))
        return RunRow.load(orjson.loads(found[0][0])) if found else None

    def tags(self, visibility: RunVisibility = EVERYTHING) -> list[tuple[str, int]]:
        """Tags and how many rows have each, the most frequent first."""

        def found() -> list[tuple[str, int]]:
            where, values = visibility.condition()
            rows = "tag" if where == ALL_ROWS else f"tag JOIN run USING (id) WHERE {where}"
            statement = f"SELECT tag, count(*) FROM {rows} GROUP BY tag ORDER BY 2 DESC, 1 LIMIT ?"  # noqa: S608
            return [(str(tag), int(count)) for tag, count in self._read(statement, (*values, MOST_TAGS))]

        return self._kept("tags", visibility, found)

    def value_names(self, visibility: RunVisibility = EVERYTHING) -> list[str]:
        """Names of values that any row ever had, sorted; at most `MOST_NAMES`."""
        where, values = visibility.condition()
        statement = f"SELECT DISTINCT name FROM value_name WHERE {where} ORDER BY name LIMIT ?"  # noqa: S608
        return [str(name) for (name,) in self._read(statement, (*values, MOST_NAMES))]

    def answer(self, view: RunsView, visibility: RunVisibility = EVERYTHING) -> RunsAnswer:
        """The rows of a view that somebody sees; a page behind the last one is empty."""
        where, values = _where(view, visibility)
        seen = visibility.condition()
        everything = self._kept("counts", visibility, lambda: self._group_counts(*seen))
        if (where, values) == seen:
            counts, numbers = everything, self._numbers(view, where, values)
        else:
            counts, numbers = self._counts_and_numbers(view, where, values)
        chosen = view.groups or tuple(StateGroup)
        return RunsAnswer(
            rows=tuple(self._documents(numbers)),
            total=sum(counts.get(group, 0) for group in chosen),
            counts={group: counts.get(group, 0) for group in StateGroup},
            everything=sum(everything.values()),
            sources=tuple(_reported(source, visibility) for source in self._sources.values()),
        )

    def _numbers(self, view: RunsView, where: str, values: Sequence[str]) -> list[int]:
        """The rows of a view's page, in their order."""
        order, order_values = _order(view)
        statement = f"SELECT id FROM run WHERE {where}{_in_groups(view)} {order} LIMIT ? OFFSET ?"  # noqa: S608
        given = (*values, *view.groups, *order_values, view.size, (view.page - 1) * view.size)
        return [number for (number,) in self._read(statement, given)]

    def _counts_and_numbers(
        self, view: RunsView, where: str, values: Sequence[str]
    ) -> tuple[dict[str, int], list[int]]:
        """The same and the rows of each group of states: what words leave is looked for once for both."""
        order, order_values = _order(view)
        column = view.sorted_by if view.sorted_by in _SORTED else "submitted"
        statement = f"""
            WITH run AS MATERIALIZED (
                SELECT id, state_group, rank, state, {column} FROM main.run AS run WHERE {where}
            )
            SELECT 0, state_group, count(*) FROM run GROUP BY state_group
            UNION ALL
            SELECT * FROM (SELECT 1, id, 0 FROM run WHERE 1{_in_groups(view)} {order} LIMIT ? OFFSET ?)
        """  # noqa: S608 - placeholders, and names of our own columns
        given = (*values, *view.groups, *order_values, view.size, (view.page - 1) * view.size)
        found = self._read(statement, given)
        counts = {str(group): int(count) for kind, group, count in found if kind == 0}
        return counts, [number for kind, number, _ in found if kind == 1]

    def _kept(self, what: str, visibility: RunVisibility, find: Callable[[], Found]) -> Found:
        """An answer that is found again only once the rows have changed."""
        version = self.version_for(visibility)
        known = self._known.get((what, visibility))
        if known is None or known[0] != version:
            known = self._known[what, visibility] = (version, find())
        found: Found = known[1]
        return found

    def _group_counts(self, where: str, values: Sequence[str]) -> dict[str, int]:
        statement = f"SELECT state_group, count(*) FROM run WHERE {where} GROUP BY state_group"  # noqa: S608
        return {str(group): int(count) for group, count in self._read(statement, values)}

    def _read(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock, closing(self._database.execute(statement, values)) as found:
            return found.fetchall()

    def _documents(self, numbers: Sequence[int]) -> list[RunRow]:
        """The rows with some numbers, in their order; one that was removed meanwhile is left out."""
        marks = ", ".join("?" * len(numbers))
        found = dict(self._read(f"SELECT id, content FROM document WHERE id IN ({marks})", numbers))  # noqa: S608
        return [RunRow.load(orjson.loads(found[number])) for number in numbers if number in found]

    def _put(self, source: str, row: RunRow) -> bool:
        run = self._database.execute
        content = orjson.dumps(row)
        held = run("SELECT content FROM document JOIN run USING (id) WHERE key = ?", (row.key,)).fetchone()
        if held is not None and held[0] == content:
            return False
        (number,) = run(_PUT, _cells(source, row)).fetchone()
        self._clear(number)
        run("INSERT INTO document VALUES (?, ?)", (number, content))
        many = self._database.executemany
        many("INSERT OR IGNORE INTO tag VALUES (?, ?)", [(tag, number) for tag in row.tags])
        many("INSERT INTO value VALUES (?, ?, ?)", [(name, number, row.values[name]) for name in row.values])
        named = [(name, row.workspace) for name in row.values]
        many("INSERT OR IGNORE INTO value_name VALUES (?, ?)", named)
        return True

    def _remove(self, key: str) -> str | None:
        """Remove a row; the workspace that it belonged to, `None` where there is no such row."""
        statement = "DELETE FROM run WHERE key = ? RETURNING id, workspace"
        found = self._database.execute(statement, (key,)).fetchone()
        if found is None:
            return None
        self._clear(found[0])
        return str(found[1])

    def _clear(self, number: int) -> None:
        for part in _PARTS:
            self._database.execute(f"DELETE FROM {part} WHERE id = ?", (number,))  # noqa: S608 - constants


def _reported(source: SourceState, visibility: RunVisibility) -> SourceState:
    """What an observer says to somebody: problems name what only those may know who see everything."""
    if not source.problem or visibility == EVERYTHING:
        return source
    return replace(
        source, problem=f"A part of the {source.name} cannot be read; an admin of the service sees which."
    )


def _cells(source: str, row: RunRow) -> tuple[object, ...]:
    progress = None
    if row.progress is not None and row.progress.total:
        progress = row.progress.done / row.progress.total
    searched = [row.name, row.run, row.state, row.reason, row.note, *row.tags, *map(str, row.values.values())]
    return (
        row.key,
        source,
        row.workspace,
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


_SORTED: Final = frozenset({"name", "progress", "measure", "cost", "submitted", "changed"})
"""Columns of the table that a view can be sorted by."""


def _in_groups(view: RunsView) -> str:
    return f" AND state_group IN ({', '.join('?' * len(view.groups))})" if view.groups else ""


def _where(view: RunsView, visibility: RunVisibility) -> tuple[str, list[str]]:
    seen, values = visibility.condition()
    parts = [seen] if seen != ALL_ROWS else []
    if view.kinds:
        parts.append(f"kind IN ({', '.join('?' * len(view.kinds))})")
        values += view.kinds
    for tag in view.tags:
        parts.append("id IN (SELECT id FROM tag WHERE tag = ?)")
        values.append(tag)
    for word in view.text.casefold().split():
        parts.append("instr(search, ?) > 0")
        values.append(word)
    return " AND ".join(parts) or ALL_ROWS, values


def _order(view: RunsView) -> tuple[str, list[str]]:
    """The order of a view; rows without the value come last, whichever way it goes."""
    direction = "DESC" if view.falls else "ASC"
    name = view.sorted_by
    if name == "state":
        return f"ORDER BY rank {direction}, state {direction}, id", []
    if name.startswith(VALUE):
        value = "(SELECT content FROM value WHERE value.name = ? AND value.id = run.id)"
        return f"ORDER BY {value} {direction} NULLS LAST, id", [name.removeprefix(VALUE)]
    if name in ("name", "submitted"):
        return f"ORDER BY {name} {direction}, id {direction}", []
    return f"ORDER BY {name} {direction} NULLS LAST, id {direction}", []
