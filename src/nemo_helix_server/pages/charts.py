"""The series of a job as charts: on one axis through all attempts, with the moments at which it stopped and
went on, and the same in a table and a sentence. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
Points = Sequence[Record]
MOST_POINTS = 800
"""Of one series in a chart."""
MOST_ROWS = 40
"""Of a chart's table."""
MOST_CHARTS = 12
_KINDS = (("Loss", "loss"), ("Reward", "reward"), ("Learning rate", "learning_rate"), ("Learning rate", "lr"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartMark:
    """A moment at which a training stopped or went on."""

    step: int
    kind: str
    """How it went on (``resumed``, ``rerun``, ``went on``), or how it stopped, as the bill has it."""
    at: str | None
    """The moment, as on the wire."""
    attempt: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Series that share an axis."""

    title: str
    names: tuple[str, ...]
    steps: tuple[int, ...]
    """Training steps, the x-axis."""
    values: tuple[tuple[float | None, ...], ...]
    """Of each name at each step; `None`: it has no point there."""
    sentences: tuple[str, ...]
    """One of each name: from where to where it went."""
    marks: tuple[ChartMark, ...]

    def document(self) -> dict[str, Any]:
        """What is drawn, as JSON values."""
        marks = [{"step": mark.step, "kind": mark.kind} for mark in self.marks]
        names = [name.replace("_", " ") for name in self.names]
        return {"names": names, "steps": self.steps, "values": self.values, "marks": marks}

    def table(self) -> list[tuple[int, tuple[float | None, ...]]]:
        """Some steps with their values: the first, the last, and in equal parts between."""
        wanted = _spread(len(self.steps), MOST_ROWS)
        return [(self.steps[at], tuple(column[at] for column in self.values)) for at in wanted]


def charts_of(series: Mapping[str, Points] | None, marks: Sequence[ChartMark]) -> list[Chart]:
    """The charts of a job's series; those of a kind share one."""
    groups: dict[str, list[str]] = {}
    found = {name: _clean(points) for name, points in (series or {}).items()}
    for name, points in found.items():
        if points:
            groups.setdefault(_title(name), []).append(name)
    titles = sorted(groups, key=_rank)[:MOST_CHARTS]
    return [_chart(title, {name: found[name] for name in sorted(groups[title])}, marks) for title in titles]


def marks_of(bill: Record, *, step: str | None = None) -> tuple[ChartMark, ...]:
    """The moments at which a job's training stopped and went on; ``step``: of this one alone."""
    marks: list[ChartMark] = []
    before: Record | None = None
    for line in bill["allocations"]:
        first, last = _first_step(before, line), line["last_step"]
        if first is None or (step is not None and line["step"] != step):
            continue
        if before is not None:
            kind = _start(before, line)
            marks.append(ChartMark(step=first, kind=kind, at=line["began_at"], attempt=line["attempt"]))
        if line["end"] is not None:
            marks.append(
                ChartMark(
                    step=max(first, last or 0),
                    kind=str(line["end"]),
                    at=line["ended_at"],
                    attempt=line["attempt"],
                    why=str(line["cause"] or ""),
                )
            )
        before = line
    return tuple(marks)


def _first_step(before: Record | None, line: Record) -> int | None:
    """The training step that a start went on from; of one that runs what the start before it has left."""
    known: int | None = line["first_step"]
    if known is None and before is not None and line["step"] == before["step"] and line["began_at"]:
        kept: int | None = before["kept_step"]
        return kept if kept is not None else before["last_step"]
    return known


def _start(before: Record, line: Record) -> str:
    if line["attempt"] != before["attempt"]:
        return "rerun"
    return "resumed" if before["end"] == "paused" else "went on"


def _clean(points: Points) -> list[tuple[int, float]]:
    """Steps and values in their order, each step once, thinned; only numbers are kept."""
    kept = {
        int(point["step"]): float(point["value"])
        for point in points
        if isinstance(point.get("step"), int)
        and isinstance(point.get("value"), int | float)
        and math.isfinite(point["value"])
    }
    ordered = sorted(kept.items())
    return [ordered[at] for at in _kept(ordered)]


def _kept(points: Sequence[tuple[int, float]]) -> list[int]:
    """Which points are drawn: of each part of the line its lowest and its highest, so no peak is lost."""
    if len(points) <= MOST_POINTS:
        return list(range(len(points)))
    parts = (MOST_POINTS - 2) // 2
    chosen = {0, len(points) - 1}
    for part in range(parts):
        within = range(part * len(points) // parts, (part + 1) * len(points) // parts)
        chosen |= {min(within, key=lambda at: points[at][1]), max(within, key=lambda at: points[at][1])}
    return sorted(chosen)


def _chart(
    title: str, series: Mapping[str, Sequence[tuple[int, float]]], marks: Sequence[ChartMark]
) -> Chart:
    steps = sorted({step for points in series.values() for step, _ in points})
    values = [dict(points) for points in series.values()]
    return Chart(
        title=title,
        names=tuple(series),
        steps=tuple(steps),
        values=tuple(tuple(column.get(step) for step in steps) for column in values),
        sentences=tuple(_sentence(name, points) for name, points in series.items()),
        marks=tuple(marks),
    )


def _sentence(name: str, points: Sequence[tuple[int, float]]) -> str:
    (first_step, first), (last_step, last) = points[0], points[-1]
    words = name.replace("_", " ")
    if len(points) == 1:
        return f"{words} is {first:.4g} at step {first_step}, its only point."
    went = "rose" if last > first else "fell" if last < first else "stayed"
    low_step, low = min(points, key=lambda point: point[1])
    high_step, high = max(points, key=lambda point: point[1])
    return (
        f"{words} {went} from {first:.4g} at step {first_step} to {last:.4g} at step {last_step}; lowest "
        f"{low:.4g} at step {low_step}, highest {high:.4g} at step {high_step}."
    )


def _title(name: str) -> str:
    for title, part in _KINDS:
        if name == part or name.endswith((f"_{part}", f"/{part}")) or (part != "lr" and part in name):
            return title
    return name.replace("_", " ")


def _rank(title: str) -> tuple[int, str]:
    order = [kind for kind, _ in _KINDS]
    return (order.index(title) if title in order else len(order), title)


def _spread(length: int, most: int) -> list[int]:
    if length <= most:
        return list(range(length))
    return sorted({round(at * (length - 1) / (most - 1)) for at in range(most)})
