"""What publishing to a tracker is, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOpening:
    """What a run is opened with."""

    job: str
    """The job's id: what a run is recognised by when nobody knows the tracker's name for it."""
    run_id: str | None
    """The tracker's name for the run; None when it was not reported yet."""
    project: str
    name: str
    notes: str | None
    entity: str | None
    labels: tuple[str, ...]
    tags: Mapping[str, str]
    folder: Path
    """Where files of the tracker's library may be kept."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any], folder: Path) -> RunOpening:
        """As the service says it."""
        return cls(
            job=value["job"],
            run_id=value["run_id"],
            project=value["project"],
            name=value["name"],
            notes=value["notes"],
            entity=value["entity"],
            labels=tuple(value["labels"]),
            tags=value["tags"],
            folder=folder,
        )


@dataclass(frozen=True, slots=True)
class MetricsRow:
    """The values of one training step."""

    step: int
    values: Mapping[str, float]


class LibraryEndedError(Exception):
    """A program that a tracker's library has started, and works with, has ended."""


class OpenTrackerRun(Protocol):
    """An open run of a tracker. Any method may raise whatever the tracker's library raises.

    `LibraryEndedError` says that no run of the library can be used in this process any more.
    """

    run_id: str
    url: str | None
    last: int | None
    """The last training step that the tracker has; None: it cannot be found out."""

    def log(self, rows: list[MetricsRow], at: int) -> None:
        """Add rows; what the tracker has already is left out. ``at``: milliseconds since the epoch."""
        ...

    def set_state(self, state: str) -> None:
        """Say what state the run is in; after any but ``running`` the run may be open no more."""
        ...

    def release(self) -> None:
        """Release the run, which stays open at the tracker."""
        ...
