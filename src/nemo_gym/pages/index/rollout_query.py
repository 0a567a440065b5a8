"""Which rollouts of an output a page shows, in which order, and the ones before and behind one of them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from nemo_gym.pages.index.row_scan import Place
from nemo_gym.rollouts.reading.row_facts import WRONG, Outcome

PAGE: Final = 50
"""Rollouts on one page."""
TASKS: Final = 400
"""Tasks on one page of a grid."""

Kind = Literal["failed", "wrong", "truncated"]
Order = Literal["task", "slow"]

_WRONG: Final = " or ".join(f"outcome = '{outcome}'" for outcome in sorted(WRONG))
_KINDS: Final[dict[Kind, str]] = {
    "failed": "outcome = 'failed'",
    "wrong": _WRONG,
    "truncated": "truncated = 1",
}
_COLUMNS: Final = (
    "task, repeat, outcome, reward, truncated, latency_ms, tokens, failed_attempts,"
    " result_at, result_length, answer_at, answer_length"
)
_MEASURED: Final = "reward is not null and outcome != 'masked'"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutQuery:
    """What is asked for; the filters are those of `gym job show`."""

    kinds: frozenset[Kind] = frozenset()
    """Rollouts that are any of these; none: all."""
    task: int | None = None
    """Of this task alone, counted from 0."""
    group: tuple[str, str] | None = None
    """Of tasks whose rows have this value in this field."""
    order: Order = "task"
    """``slow``: slowest first."""
    page: int = 1
    """Counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEntry:
    """One rollout of which something is recorded."""

    task: int
    repeat: int
    outcome: Outcome
    reward: float | None
    truncated: bool
    latency_ms: float | None
    tokens: int | None
    failed_attempts: int
    result_at: int | None
    result_length: int | None
    answer_at: int | None
    answer_length: int | None

    @property
    def place(self) -> Place:
        """Task and repeat."""
        return self.task, self.repeat

    @property
    def length(self) -> int:
        """Bytes of the row that holds its answer; 0 without one."""
        return self.result_length or self.answer_length or 0


@dataclass(frozen=True, slots=True)
class RolloutPage:
    """Some of the rollouts that were asked for."""

    entries: list[RolloutEntry]
    total: int
    """Of all pages."""
    page: int
    pages: int
    """At least 1."""


@dataclass(frozen=True, slots=True)
class TaskScore:
    """One task in a grid."""

    task: int
    mean: float | None
    """Mean reward of its measured rollouts."""
    rollouts: int
    """Of which something is recorded."""
    failed: int


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """How many rollouts there are of each kind."""

    outcomes: dict[Outcome, int] = field(default_factory=dict)
    truncated: int = 0

    @property
    def total(self) -> int:
        """All of which something is recorded."""
        return sum(self.outcomes.values())

    def of_kind(self, kind: Kind) -> int:
        """Those that a filter leaves."""
        if kind == "truncated":
            return self.truncated
        wanted = WRONG if kind == "wrong" else {"failed"}
        return sum(number for outcome, number in self.outcomes.items() if outcome in wanted)


def counts(database: sqlite3.Connection) -> OutcomeCounts:
    """Count all of an output."""
    rows = database.execute("select outcome, count(*), sum(truncated) from rollouts group by outcome")
    found = rows.fetchall()
    return OutcomeCounts({row[0]: row[1] for row in found}, sum(row[2] for row in found))


def page_of(database: sqlite3.Connection, wanted: RolloutQuery) -> RolloutPage:
    """One page; a number behind the last page is the last one."""
    where, values = _where(wanted)
    total = database.execute(f"select count(*) from rollouts where {where}", values).fetchone()[0]
    pages = max(1, -(-total // PAGE))
    page = min(max(1, wanted.page), pages)
    rows = database.execute(
        f"select {_COLUMNS} from rollouts where {where} {_order(wanted)} limit ? offset ?",
        (*values, PAGE, PAGE * (page - 1)),
    )
    return RolloutPage([_entry(row) for row in rows], total, page, pages)


def entry_at(database: sqlite3.Connection, place: Place) -> RolloutEntry | None:
    """One rollout; ``None`` where nothing of it is recorded."""
    row = database.execute(f"select {_COLUMNS} from rollouts where task = ? and repeat = ?", place).fetchone()
    return None if row is None else _entry(row)


def neighbours(
    database: sqlite3.Connection, wanted: RolloutQuery, place: Place
) -> tuple[Place | None, Place | None]:
    """The rollouts of a query before and behind one, which need not be among them, in the order of tasks."""
    where, values = _where(wanted)
    found = []
    for sign, way in (("<", "desc"), (">", "asc")):
        row = database.execute(
            f"select task, repeat from rollouts where (task, repeat) {sign} (?, ?) and {where}"
            f" order by task {way}, repeat {way} limit 1",
            (*place, *values),
        ).fetchone()
        found.append(None if row is None else (row[0], row[1]))
    return found[0], found[1]


def failure_places(database: sqlite3.Connection, place: Place) -> list[tuple[int, int]]:
    """Offset and length of the rows of a rollout's failed attempts, oldest first."""
    return database.execute(
        "select at, length from failures where task = ? and repeat = ? order by at", place
    ).fetchall()


def failure_classes(database: sqlite3.Connection) -> list[tuple[str, int]]:
    """How many rollouts without a result failed at last for each reason, most first."""
    return database.execute(
        "select class, count(*) from (select f.task, f.repeat, class, max(at) from failures f join rollouts r"
        " on r.task = f.task and r.repeat = f.repeat where outcome = 'failed' group by f.task, f.repeat)"
        " group by class order by 2 desc, 1"
    ).fetchall()


def input_place(database: sqlite3.Connection, place: Place) -> tuple[int, int] | None:
    """Offset and length of a materialized row."""
    found: tuple[int, int] | None = database.execute(
        "select at, length from inputs where task = ? and repeat = ?", place
    ).fetchone()
    return found


def group_values(database: sqlite3.Connection) -> dict[str, list[str]]:
    """The values of each field that tasks are grouped by."""
    found: dict[str, list[str]] = {}
    for by, value in database.execute("select distinct field, value from groups order by field, value"):
        found.setdefault(by, []).append(value)
    return found


def task_scores(database: sqlite3.Connection, page: int = 1) -> tuple[list[TaskScore], int]:
    """One page of the tasks, and how many pages there are."""
    total = database.execute("select count(*) from (select distinct task from rollouts)").fetchone()[0]
    pages = max(1, -(-total // TASKS))
    rows = database.execute(
        f"select task, avg(iif({_MEASURED}, reward, null)), count(*), sum(outcome = 'failed')"
        " from rollouts group by task order by task limit ? offset ?",
        (TASKS, TASKS * (min(max(1, page), pages) - 1)),
    )
    return [TaskScore(*row) for row in rows], pages


def measured_tasks(database: sqlite3.Connection) -> dict[int, tuple[float, int]]:
    """The mean reward of each task that has a measured rollout, and the first repeat of those."""
    rows = database.execute(
        f"select task, avg(reward), min(repeat) from rollouts where {_MEASURED} group by task"
    )
    return {task: (mean, repeat) for task, mean, repeat in rows}


def _where(wanted: RolloutQuery) -> tuple[str, tuple[Any, ...]]:
    parts: list[str] = ["1"]
    values: list[str | int] = []
    if wanted.kinds:
        parts.append(f"({' or '.join(_KINDS[kind] for kind in sorted(wanted.kinds))})")
    if wanted.task is not None:
        parts.append("task = ?")
        values.append(wanted.task)
    if wanted.group is not None:
        parts.append("task in (select task from groups where field = ? and value = ?)")
        values += wanted.group
    return " and ".join(parts), tuple(values)


def _order(wanted: RolloutQuery) -> str:
    if wanted.order == "slow":
        return "order by latency_ms is null, latency_ms desc, task, repeat"
    return "order by task, repeat"


def _entry(row: tuple[Any, ...]) -> RolloutEntry:
    names = _COLUMNS.split(", ")
    values = dict(zip(names, row, strict=True))
    return RolloutEntry(**{**values, "truncated": bool(values["truncated"])})
