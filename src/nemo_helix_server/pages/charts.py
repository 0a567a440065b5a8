"""The series of a job as charts: on one axis through all attempts, with the moments at which it stopped and
went on, and the same in a table and a sentence. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nemo_helix_plugin.job_words.curves import ChartMark, Curve, curve_of

Record = Mapping[str, Any]
Points = Sequence[Record]
MOST_POINTS = 800
"""Of one series in a chart."""
MOST_ROWS = 40
"""Of a chart's table."""
MOST_CHARTS = 12
_KINDS = (("Loss", "loss"), ("Reward", "reward"), ("Learning rate", "learning_rate"), ("Learning rate", "lr"))


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
        return {"names": self.names, "steps": self.steps, "values": self.values, "marks": marks}

    def table(self) -> list[tuple[int, tuple[float | None, ...]]]:
        """Some steps with their values: the first, the last, and in equal parts between."""
        wanted = _spread(len(self.steps), MOST_ROWS)
        return [(self.steps[at], tuple(column[at] for column in self.values)) for at in wanted]


def charts_of(series: Mapping[str, Points] | None, marks: Sequence[ChartMark]) -> list[Chart]:
    """The charts of a job's series; those of a kind share one."""
    groups: dict[str, list[Curve]] = {}
    for name in sorted(series or {}):
        curve = _thinned(name, (series or {})[name])
        if curve is not None:
            groups.setdefault(_title(name), []).append(curve)
    titles = sorted(groups, key=_rank)[:MOST_CHARTS]
    return [_chart(title, [_in_words(curve) for curve in groups[title]], marks) for title in titles]


def chart_of_jobs(metric: str, curves: Mapping[str, Curve]) -> Chart:
    """One metric of several jobs, by what each job is called."""
    lines = [replace(_fewer(curve), name=label) for label, curve in curves.items()]
    return _chart(metric.replace("_", " "), lines, ())


def _thinned(name: str, points: Points) -> Curve | None:
    """The curve of some points, with no more of them than are drawn."""
    whole = curve_of(name, points)
    return None if whole is None else _fewer(whole)


def _fewer(whole: Curve) -> Curve:
    """A curve with no more points than are drawn."""
    kept = _kept(list(zip(whole.steps, whole.values, strict=True)))
    return Curve(whole.name, tuple(whole.steps[at] for at in kept), tuple(whole.values[at] for at in kept))


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


def _chart(title: str, curves: Sequence[Curve], marks: Sequence[ChartMark]) -> Chart:
    steps = sorted({step for curve in curves for step in curve.steps})
    values = [dict(zip(curve.steps, curve.values, strict=True)) for curve in curves]
    return Chart(
        title=title,
        names=tuple(curve.name for curve in curves),
        steps=tuple(steps),
        values=tuple(tuple(column.get(step) for step in steps) for column in values),
        sentences=tuple(curve.sentence() for curve in curves),
        marks=tuple(marks),
    )


def _in_words(curve: Curve) -> Curve:
    return replace(curve, name=curve.name.replace("_", " "))


def _title(name: str) -> str:
    if name.startswith("eval_"):
        scored = name.removeprefix("eval_").removesuffix("_low").removesuffix("_high")
        return f"Score of {scored.replace('_', ' ')}"
    for title, part in _KINDS:
        if name == part or name.endswith((f"_{part}", f"/{part}")) or (part != "lr" and part in name):
            return title
    return name.replace("_", " ")


def _rank(title: str) -> tuple[int, str]:
    order = [kind for kind, _ in _KINDS]
    return (order.index(title) if title in order else len(order) - title.startswith("Score of "), title)


def _spread(length: int, most: int) -> list[int]:
    if length <= most:
        return list(range(length))
    return sorted({round(at * (length - 1) / (most - 1)) for at in range(most)})
