"""One row of the page Runs, whatever it is a row of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self


class StateGroup(StrEnum):
    """What kind of state a run is in: its colour and its sign, and what the list is filtered by."""

    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    FAILED = "failed"
    UNKNOWN = "unknown"
    ENDED = "ended"
    SUCCEEDED = "succeeded"

    @property
    def label(self) -> str:
        """The word on its filter."""
        return "Ended early" if self is StateGroup.ENDED else self.capitalize()


class RunKind(StrEnum):
    """What a row is."""

    EVALUATION = "evaluation"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run is."""

    done: float
    total: float | None
    unit: str
    """Plural noun of what is counted: ``rollouts``, ``steps``."""
    left_s: float | None = None
    """Seconds until the end at the present rate, waits between its jobs included where they are known."""
    how: str = ""
    """What these consist of, where that is more than work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The one number that says how good a run is so far."""

    name: str
    """What it is: ``mean reward``, ``train loss``."""
    value: float
    low: float | None = None
    high: float | None = None
    """Ends of its interval, of 95 % unless the page of the run says otherwise."""
    is_share: bool = False
    """Whether it lies between 0 and 1 and is written as a percentage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What a run has used."""

    amount: float
    unit: str
    """``GPU h``, ``CPU h``, or a currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run: one benchmark of an evaluation, or one job."""

    key: str
    """Unique among all rows: ``evaluation/<run id>/<benchmark>``, ``job/<workspace>/<name>``."""
    kind: RunKind
    name: str
    path: str
    """Address of its page, without the root path."""
    run: str
    """What it is part of and what comparisons name: the run id, or ``<workspace>/<name>``."""
    state: str
    """The word that its program uses for the state."""
    group: StateGroup
    submitted_at: float
    """UTC seconds."""
    workspace: str = ""
    """The workspace whose readers may see it; empty: none, so that only who may see everything does."""
    reason: str = ""
    """Why it is in this state: what it waits for, or why it ended."""
    progress: RunProgress | None = None
    measure: Measure | None = None
    curve: tuple[float | None, ...] = ()
    """Its measure over time, oldest first; at most a hundred values."""
    cost: RunCost | None = None
    changed_at: float | None = None
    """UTC seconds of the last progress."""
    seen_at: float | None = None
    """UTC seconds at which anybody last saw it, where that is not just now."""
    silent: str = ""
    """Why nobody sees it now."""
    tags: tuple[str, ...] = ()
    """Tags, and labels as ``name=value``."""
    note: str = ""
    values: Mapping[str, str | float | int | bool] = field(default_factory=dict)
    """What columns can be made of: settings and metrics by their dotted names."""

    @classmethod
    def load(cls, document: Mapping[str, Any]) -> Self:
        """The row of a document."""
        values = dict(document)
        for name, kind in (("progress", RunProgress), ("measure", Measure), ("cost", RunCost)):
            if values.get(name) is not None:
                values[name] = kind(**values[name])
        values["kind"], values["group"] = RunKind(values["kind"]), StateGroup(values["group"])
        values["curve"], values["tags"] = tuple(values["curve"]), tuple(values["tags"])
        return cls(**values)
