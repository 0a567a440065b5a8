"""The metrics of a job as curves over its training steps: as a table, and in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from nemo_helix_plugin.job_words import job_state

Record = Mapping[str, Any]


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
        return "loss" if self.name.endswith("_loss") else self.name

    def sentence(self) -> str:
        """Where it began, its least and its greatest value, and where it is now."""
        points = list(zip(self.steps, self.values, strict=True))
        ends = (points[0], points[-1])
        extremes = (("lowest", min(points, key=_value)), ("highest", max(points, key=_value)))
        between = [f"{word} {_said(point)}" for word, point in extremes if point not in ends]
        now = [f"now {_said(points[-1])}"] if len(points) > 1 else []
        return f"{self.name}: {', '.join([_said(points[0]), *between, *now])}"


def _value(point: tuple[int, float]) -> float:
    return point[1]


def _said(point: tuple[int, float]) -> str:
    return f"{point[1]:.4g} at step {point[0]}"


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
    found = []
    series = job_state.details(job).get("metrics")
    for name, points in series.items() if isinstance(series, Mapping) else ():
        if wanted and not any(fnmatchcase(name, pattern) for pattern in wanted):
            continue
        pairs = sorted((point["step"], float(point["value"])) for point in points if _is_number(point))
        if pairs:
            steps, values = zip(*pairs, strict=True)
            found.append(Curve(str(name), steps, values))
    return sorted(found, key=lambda curve: ("loss" not in curve.name, curve.name))


def _is_number(point: Any) -> bool:
    value = point.get("value") if isinstance(point, Mapping) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and isinstance(point.get("step"), int)


def rows(curves: Sequence[Curve]) -> list[dict[str, int | float | None]]:
    """A row for each step that any curve has: ``step``, and each metric, null where it has no value there."""
    by_step: dict[int, dict[str, int | float | None]] = {}
    for curve in curves:
        for step, value in zip(curve.steps, curve.values, strict=True):
            by_step.setdefault(step, {})[curve.name] = value
    names = [curve.name for curve in curves]
    return [{"step": step, **{name: by_step[step].get(name) for name in names}} for step in sorted(by_step)]


def breaks_of(bill: Record) -> list[Break]:
    """Where training went on after a pause, an interruption or a failure, from the job's bill."""
    found = []
    before: Record | None = None
    for line in bill.get("allocations") or ():
        step = line.get("first_step")
        if step is None:
            continue
        if before is not None and before.get("step") == line.get("step"):
            found.append(Break(int(step), _why(before, line)))
        before = line
    return found


def _why(before: Record, line: Record) -> str:
    attempt = line.get("attempt") or 0
    if attempt != before.get("attempt"):
        return f"rerun as attempt {attempt + 1}"
    if before.get("end") == "paused":
        return "resumed after a pause"
    cause = before.get("cause")
    return f"went on after an interruption{f': {cause}' if cause else ''}"
