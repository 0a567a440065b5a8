"""The allocation file: until when a start may run, as is known now.

The program that watches the allocation on its machine writes it beside the control file, by rename, and again
whenever the end has moved (administrators change the limits of running jobs) or a preemption was announced.
The trainer only reads it.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from nemo_runs.durable.disk import read_regular
from nemo_runs.durable.files import replace_file

FILE = "allocation.json"
"""Its name in the folder of a start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What is known of the place of a start."""

    ends_at: float | None
    """UTC seconds since the epoch; `None` = no end is known."""
    notice: str = ""
    """A clause that says why the place is taken away soon, such as ``it is preempted``; empty = it is not."""
    by: str
    """Who says so, for people."""
    at: float
    """When it was found out, in UTC seconds since the epoch."""


def read_allocation(path: Path) -> Allocation | None:
    """What an allocation file holds; `None` when there is none or it holds something else."""
    try:
        value = json.loads(read_regular(path))
        end = value["ends_at"]
        found = Allocation(
            ends_at=None if end is None else float(end),
            notice=str(value.get("notice") or ""),
            by=str(value["by"]),
            at=float(value["at"]),
        )
    except (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError, AttributeError):
        return None
    return found if found.ends_at is None or math.isfinite(found.ends_at) else None


def write_allocation(path: Path, allocation: Allocation) -> None:
    """Replace the file; raises `nemo_runs.errors.DiskFullError` when it does not fit."""
    replace_file(path, json.dumps(asdict(allocation)).encode("ascii") + b"\n", mode=None)
