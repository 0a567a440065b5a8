"""The metrics of a job as curves over its training steps: as a table, and in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from nemo_helix_plugin.job_words import job_state

Record = Mapping[str, Any]
RESUMED, RERUN, WENT_ON = "resumed", "rerun", "went on"


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric, by training step; as many values as steps, in the order of steps."""

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def quantity(self) -> str:
        """What is measured: ``loss`` of ``train_loss`` and ``val_loss``, which share an axis."""
        if "/" in self.name:
            return self.name.partition("/")[0]
        if self.name.startswith("eval_"):
            return self.name.removesuffix("_low").removesuffix("_high")
        return "loss" if self.name.endswith("_loss") else self.name

    def sentence(self) -> str:
        """From where to where it went, and its least and its greatest value."""
        points = list(zip(self.steps, self.values, strict=True))
        (first_step, first), (last_step, last) = points[0], points[-1]
        if len(points) == 1:
            return f"{self.name} is {first:.4g} at step {first_step}, its only point."
        went = "rose" if last > first else "fell" if last < first else "stayed"
        low_step, low = min(points, key=_value)
        high_step, high = max(points, key=_value)
        return (
            f"{self.name} {went} from {first:.4g} at step {first_step} to {last:.4g} at step {last_step}; "
            f"lowest {low:.4g} at step {low_step}, highest {high:.4g} at step {high_step}."
        )


def _value(point: tuple[int, float]) -> float:
    return point[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartMark:
    """A moment at which a training stopped or went on."""

    step: int
    kind: str
    """How it went on (`RESUMED`, `RERUN`, `WENT_ON`), or how it stopped, as the bill has it."""
    at: str | None
    """The moment, as on the wire."""
    attempt: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Break:
    """A training step after which another start of the training went on."""

    step: int
    why: str


def curves_of(job: Record, patterns: Iterable[str] = ()) -> list[Curve]:
    """The curves of a job that have values, losses first; of ``patterns`` like ``*loss``, those that match.

    A point without a number (a loss that was not finite) is left out.
    """
    wanted = tuple(patterns)
    series = job_state.details(job).get("metrics")
    found = [
        curve
        for name, points in (series.items() if isinstance(series, Mapping) else ())
        if not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)
        if (curve := curve_of(str(name), points)) is not None
    ]
    return sorted(found, key=lambda curve: ("loss" not in curve.name, curve.name))


def curve_of(name: str, points: Any) -> Curve | None:
    """The curve of points ``{step, value}``, each step once, the last value counts; `None` without any."""
    kept = {
        point["step"]: float(point["value"])
        for point in (points if isinstance(points, Sequence) else ())
        if _is_number(point)
    }
    if not kept:
        return None
    steps = tuple(sorted(kept))
    return Curve(name, steps, tuple(kept[step] for step in steps))


def _is_number(point: Any) -> bool:
    value = point.get("value") if isinstance(point, Mapping) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and isinstance(point.get("step"), int)


def rows(curves: Sequence[Curve]) -> list[dict[str, int | float | None]]:
    """A row for each step that any curve has: ``step``, and each metric, null where it has no value there."""
    by_step: dict[int, dict[str, int | float | None]] = {}
    for curve in curves:
        for step, value in zip(curve.steps, curve.values, strict=True):
            by_step.setdefault(step, {})[curve.name] = value
    names = [curve.name for curve in curves]
    return [{"step": step, **{name: by_step[step].get(name) for name in names}} for step in sorted(by_step)]


def marks_of(bill: Record) -> list[ChartMark]:
    """The moments at which a job's training stopped and went on, from the job's bill, in order."""
    marks: list[ChartMark] = []
    before: Record | None = None
    for line in bill["allocations"]:
        first, last = _first_step(before, line), line["last_step"]
        if first is None:
            continue
        if before is not None and before["step"] == line["step"]:
            kind = _start(before, line)
            marks.append(ChartMark(step=first, kind=kind, at=line["began_at"], attempt=line["attempt"]))
        if line["end"] is not None:
            stopped = max(first, last or 0)
            end, why = str(line["end"]), str(line["cause"] or "")
            marks.append(
                ChartMark(step=stopped, kind=end, at=line["ended_at"], attempt=line["attempt"], why=why)
            )
        before = line
    return marks


def breaks_of(bill: Record) -> list[Break]:
    """Where training went on after a pause, an interruption or a failure, from the job's bill."""
    found, cause = [], ""
    for mark in marks_of(bill):
        if mark.kind == RERUN:
            found.append(Break(mark.step, f"rerun as attempt {mark.attempt + 1}"))
        elif mark.kind == RESUMED:
            found.append(Break(mark.step, "resumed after a pause"))
        elif mark.kind == WENT_ON:
            found.append(Break(mark.step, f"went on after an interruption{f': {cause}' if cause else ''}"))
        else:
            cause = mark.why
    return found


def _first_step(before: Record | None, line: Record) -> int | None:
    """The training step that a start went on from; of one that runs what the start before it has left."""
    known: int | None = line["first_step"]
    if known is None and before is not None and line["step"] == before["step"] and line["began_at"]:
        kept: int | None = before["kept_step"]
        return kept if kept is not None else before["last_step"]
    return known


def _start(before: Record, line: Record) -> str:
    if line["attempt"] != before["attempt"]:
        return RERUN
    return RESUMED if before["end"] == "paused" else WENT_ON
