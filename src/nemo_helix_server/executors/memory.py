"""What the processes of a run have in memory, and whether the kernel ended one because it ran out.

Standard library and `nemo_runs` only.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from nemo_runs.processes import process_table

_PAGE = os.sysconf("SC_PAGE_SIZE")
_GIB = 1 << 30


def used_below(pid: int) -> int:
    """Bytes in memory of all descendants of a process; pages that several share count for each."""
    table = process_table.read_all()
    return sum(_resident(child) for child in process_table.below([pid], table))


def outermost(limit: int) -> int:
    """What one process may map at most: well over the limit, for one that grows between two looks."""
    return 2 * limit + 2 * _GIB


def kills() -> int | None:
    """How often the kernel has ended a process of this control group for lack of memory, if it says so."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        group = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()[-1].split(":", 2)[2]
        events = Path("/sys/fs/cgroup", group.lstrip("/"), "memory.events").read_text(encoding="ascii")
        counts = dict(line.split() for line in events.splitlines())
        return int(counts["oom_kill"])
    return None


def _resident(pid: int) -> int:
    try:
        return int(Path("/proc", str(pid), "statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0
