"""The allocation file: until when a start may run, as is known now.

The program that watches the allocation on its machine writes it beside the control file, by rename, and again
whenever the end has moved (administrators change the limits of running jobs) or a preemption was announced.
The trainer only reads it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from nemo_runs.durable.disk import read_regular
from nemo_runs.durable.files import replace_file

FILE = "allocation.json"
"""Its name in the folder of a start."""
_LAST_SECOND = 253_402_300_799
"""Of the year 9999: a later moment cannot be shown as a date."""
PREEMPTION = "preemption"
"""A kind of notice: work of higher priority gets the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What is known of the place of a start."""

    ends_at: float | None
    """UTC seconds since the epoch; `None` = no end is known."""
    notice: str = ""
    """A clause that says why the place is taken away soon, such as ``it is preempted``; empty = it is not."""
    kind: str = ""
    """What the notice is about, such as `PREEMPTION`; empty where there is none."""
    noticed_at: float | None = None
    """When the notice was given, in UTC seconds; `None` where there is none, or that is not known."""
    by: str
    """Who says so, for people."""
    at: float
    """When it was found out, in UTC seconds since the epoch."""

    @property
    def grace_seconds(self) -> float | None:
        """How long before the end the notice was given; `None` = none was, or that is not known."""
        if self.noticed_at is None or self.ends_at is None:
            return None
        return max(0.0, self.ends_at - self.noticed_at)


def read_allocation(path: Path) -> Allocation | None:
    """What an allocation file holds; `None` when there is none or it holds something else."""
    try:
        value = json.loads(read_regular(path))
        end, noticed = value["ends_at"], value.get("noticed_at")
        found = Allocation(
            ends_at=None if end is None else float(end),
            notice=str(value.get("notice") or ""),
            kind=str(value.get("kind") or ""),
            noticed_at=None if noticed is None else float(noticed),
            by=str(value["by"]),
            at=float(value["at"]),
        )
    except (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError, AttributeError):
        return None
    moments = (found.ends_at, found.noticed_at, found.at)
    return found if all(moment is None or 0 <= moment <= _LAST_SECOND for moment in moments) else None


def write_allocation(path: Path, allocation: Allocation) -> None:
    """Replace the file; raises `nemo_runs.errors.DiskFullError` when it does not fit."""
    replace_file(path, json.dumps(asdict(allocation)).encode("ascii") + b"\n", mode=None)
