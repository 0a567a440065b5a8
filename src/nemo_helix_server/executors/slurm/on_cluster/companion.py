"""Runs beside the command of an allocation: queues its successor, then keeps its allocation file true.

Until when a job may run is asked of the controller again and again, since administrators change the limits of
running jobs, and since a preemption is announced there alone: its SIGTERM goes to job steps, and to the batch
script only with the end of the grace time. It ends with the program of the allocation: not every site ends
what a job leaves behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.slurm.on_cluster import folders, succession
from nemo_runs.durations import parse_duration
from nemo_runs.errors import DurationError, RunsError
from nemo_trainer import contract
from nemo_trainer.contract.allocation import FILE, PREEMPTION, Allocation, write_allocation

_FAR, _NEAR, _NEAREST = 60.0, 10.0, 5.0
"""Seconds between two looks: mostly, in the last minutes, and where notices are given shortly before."""
_LOOKS_IN_GRACE = 4
"""A notice is found within this part of the grace time."""
_LAST_MINUTES = 300.0
_LOOK = 1.0
"""Seconds between two looks at whether the program of the allocation is there."""
_COMMAND_TIMEOUT, _ACCOUNTING_TIMEOUT = 60.0, 10.0
"""Seconds that a command may take; without accounting everything else goes on."""


def newest_step(order: Mapping[str, Any]) -> int:
    """The training step of the newest checkpoint whose manifest can be read; 0: there is none."""
    found = contract.list_checkpoints(Path(order["trainer"]))
    return max((one.step for one in found if isinstance(one, contract.Checkpoint)), default=0)


def look(job: str, *, grace: float = 0.0, timeout: float = _COMMAND_TIMEOUT) -> Allocation | None:
    """What the controller says of a running job's place; `None` when it does not answer, or says nothing.

    ``grace``: the grace time in seconds; of a job without a time limit ``squeue`` never shows an end.
    """
    said = _said(["squeue", "-h", "-j", job, "-O", "EndTime:40,PreemptTime:40"], timeout)
    rows = [line.split() for line in said.splitlines()]
    # a site's wrapper may print more than the answer
    words = next((row for row in rows if 0 < len(row) <= 2 and all(map(_is_moment, row))), [])
    ends_at, noticed_at = (*map(_moment, words), None, None)[:2]
    if ends_at is None and noticed_at is None:
        return None
    if ends_at is None and noticed_at is not None and grace:
        ends_at = noticed_at + grace
    return Allocation(
        ends_at=ends_at,
        notice="it is preempted" if noticed_at else "",
        kind=PREEMPTION if noticed_at else "",
        noticed_at=noticed_at,
        by=f"Slurm, job {job}",
        at=time.time(),
    )


def grace_seconds(environ: Mapping[str, str] = os.environ) -> float:
    """How long before its end a preemption of this job is announced; 0: it is not, or that is not known.

    A partition or a quality of service (QOS) sets it.
    """
    partition, qos = environ.get("SLURM_JOB_PARTITION"), environ.get("SLURM_JOB_QOS")
    shown = _said(["scontrol", "-o", "show", "partition", partition]) if partition else ""
    words = dict(word.partition("=")[::2] for word in shown.split())
    found = _duration(words.get("GraceTime", ""))
    if not found and qos:
        found = _duration(
            _said(
                ["sacctmgr", "-nP", "show", "qos", "where", f"name={qos}", "format=GraceTime"],
                _ACCOUNTING_TIMEOUT,
            )
        )
    return found


def interval(known: Allocation | None, grace: float, now: float) -> float:
    """Seconds until the next look at a place of which ``known`` is known."""
    often = max(_NEAREST, grace / _LOOKS_IN_GRACE) if grace else _FAR
    near = known is not None and known.ends_at is not None and known.ends_at - now < _LAST_MINUTES
    return min(often, _NEAR if near else _FAR)


def note(run: Path, found: Allocation | None, known: Allocation | None) -> Allocation | None:
    """Write what was found where it differs from what is known; what is known then."""
    if found is None or (known is not None and (found.ends_at, found.kind) == (known.ends_at, known.kind)):
        return known
    try:
        write_allocation(run / FILE, found)
    except (OSError, RunsError):
        return known
    return found


def _said(words: list[str], timeout: float = _COMMAND_TIMEOUT) -> str:
    """What a command of the scheduler printed; nothing when it failed."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"},
        )
        return "" if done.returncode else done.stdout.strip()
    return ""


def _moment(word: str) -> float | None:
    """Seconds since the epoch; 0 and words such as ``N/A`` are times that are not known."""
    return float(word) or None if word.isdecimal() else None


def _is_moment(word: str) -> bool:
    return word.isdecimal() or word in {"N/A", "NONE", "Unknown"}


def _duration(text: str) -> float:
    """Seconds, of a plain number of them or of ``00:01:00``; 0 for anything else."""
    with contextlib.suppress(DurationError):
        return float(text) if text.isdecimal() else float(parse_duration(text, where="GraceTime"))
    return 0.0


def main() -> None:
    """Work until the program of the allocation is gone, or a later start has claimed the step.

    The arguments are the folder of the start, the number of its generation, and the process of that program.
    """
    parent = int(sys.argv[3])
    run, job = Path(sys.argv[1]), os.environ["SLURM_JOB_ID"]
    order = json.loads((run / folders.ORDER).read_bytes())
    fence = succession.Fence(Path(order["trainer"]), int(sys.argv[2]))
    succession.queue(run, order, newest_step(order), fence)
    known = note(run, look(job), None)  # the grace time may be long in coming, and the end is wanted at once
    grace = grace_seconds()
    while os.getppid() == parent and fence.holds():
        known = note(run, look(job, grace=grace), known)
        _rest(interval(known, grace, time.time()), parent)


def _rest(seconds: float, parent: int) -> None:
    """Sleep, but no longer than the parent lives."""
    end = time.monotonic() + seconds
    while os.getppid() == parent and time.monotonic() < end:
        time.sleep(_LOOK)


if __name__ == "__main__":
    main()
