"""The control file: what is wanted of a running trainer, replaced by rename, seen within one step."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from nemo_runs.durable.disk import read_regular
from nemo_runs.durable.files import replace_file

Want = Literal["run", "pause", "stop", "checkpoint"]

WANTS: tuple[Want, ...] = get_args(Want)


@dataclass(frozen=True, slots=True)
class Control:
    """One request; a later one replaces it, and ``run`` withdraws it."""

    seq: int
    """Grows with every request to the same start of a step."""
    want: Want
    by: str
    """Who asks, for people."""
    at: float
    """UTC seconds since the epoch."""
    generation: int = 0
    """The generation that it is for: a later one is not meant by it; 0: whichever reads it."""


def read_control(path: Path) -> Control | None:
    """The request in a control file; `None` when there is no such file or it holds something else."""
    try:
        value = json.loads(read_regular(path))
        return Control(
            int(value["seq"]),
            WANTS[WANTS.index(value["want"])],
            str(value["by"]),
            float(value["at"]),
            int(value.get("generation", 0)),
        )
    except (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def write_control(path: Path, control: Control) -> bool:
    """Put a request there; false, and nothing written, when one with the same or a later number is there.

    So it is when one is there for a later generation than this one is for. Raises
    `nemo_runs.errors.DiskFullError` when it does not fit.
    """
    present = read_control(path)
    if present is not None and (
        present.seq >= control.seq or (control.generation and present.generation > control.generation)
    ):
        return False
    replace_file(path, json.dumps(asdict(control)).encode("ascii") + b"\n", mode=None)
    return True
