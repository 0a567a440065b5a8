"""Runs beside the command of an allocation: queues its successor, then keeps its allocation file true.

Until when a job may run is asked of the controller again and again, since administrators change the limits of
running jobs. It ends with the program of the allocation: not every site ends what a job leaves behind.
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
from nemo_trainer import contract
from nemo_trainer.contract.allocation import FILE, Allocation, write_allocation

_FAR, _NEAR = 60.0, 10.0
"""Seconds between two looks, and in the last minutes."""
_LAST_MINUTES = 300.0
_LOOK = 1.0
"""Seconds between two looks at whether the program of the allocation is there."""
_COMMAND_TIMEOUT = 60.0


def newest_step(order: Mapping[str, Any]) -> int:
    """The training step of the newest checkpoint whose manifest can be read; 0: there is none."""
    found = contract.list_checkpoints(Path(order["trainer"]))
    return max((one.step for one in found if isinstance(one, contract.Checkpoint)), default=0)


def end_of(job: str) -> float | None:
    """When a running job's time is over, in UTC seconds; `None` when it is not known, or it has no limit."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(
            ["squeue", "-h", "-j", job, "-O", "EndTime:40"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_TIMEOUT,
            env={**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"},
        )
        return float(done.stdout.strip())
    return None


def main() -> None:
    """Work until the program of the allocation is gone, or a later start has claimed the step.

    The arguments are the folder of the start, the number of its generation, and the process of that program.
    """
    parent = int(sys.argv[3])
    run, job = Path(sys.argv[1]), os.environ["SLURM_JOB_ID"]
    order = json.loads((run / folders.ORDER).read_bytes())
    fence = succession.Fence(Path(order["trainer"]), int(sys.argv[2]))
    succession.queue(run, order, newest_step(order), fence)
    known: float | None = None
    while os.getppid() == parent and fence.holds():
        found = end_of(job)
        if found is not None and found != known:
            said = Allocation(ends_at=found, by=f"Slurm, job {job}", at=time.time())
            with contextlib.suppress(Exception):
                write_allocation(run / FILE, said)
                known = found
        near = known is not None and known - time.time() < _LAST_MINUTES
        _rest(_NEAR if near else _FAR, parent)


def _rest(seconds: float, parent: int) -> None:
    """Sleep, but no longer than the parent lives."""
    end = time.monotonic() + seconds
    while os.getppid() == parent and time.monotonic() < end:
        time.sleep(_LOOK)


if __name__ == "__main__":
    main()
