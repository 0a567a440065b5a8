"""Processes where there is no ``/proc`` (macOS): the columns that ``ps`` prints everywhere."""

from __future__ import annotations

import calendar
import os
import subprocess
import time

UNKNOWN_BOOT = "unknown"
"""In place of a boot id that the system does not report."""
_COLUMNS = "pid=,ppid=,pgid=,stat=,lstart="


def columns(pid: int | None = None) -> list[tuple[int, int, int, str, int]]:
    """Number, parent, process group, state and start (seconds since the epoch) of one or all processes."""
    chosen = ["-ax"] if pid is None else ["-p", str(pid)]
    env = {**os.environ, "LC_ALL": "C", "TZ": "UTC0"}
    argv = ["ps", *chosen, "-o", _COLUMNS]
    done = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return [_parse(line) for line in done.stdout.splitlines() if line.strip()]


def boot_id() -> str:
    """What names the machine's current boot."""
    argv = ["sysctl", "-n", "kern.bootsessionuuid"]
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN_BOOT


def _parse(line: str) -> tuple[int, int, int, str, int]:
    pid, parent, group, state, *start = line.split()
    moment = time.strptime(" ".join(start), "%a %b %d %H:%M:%S %Y")
    return int(pid), int(parent), int(group), state, calendar.timegm(moment)
