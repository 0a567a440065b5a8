"""Processes beyond their numbers: an identity that outlives reuse of the number, and ending a whole tree.

A pid alone names a stranger as soon as its process is gone; identity is host, boot, pid namespace, pid and
start time together. Processes that leave the tree (setsid, double fork) are found by their session, by a
marker in their environment, or because a subreaper adopted them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nemo_runs.errors import ProcessGoneError, RunsError
from nemo_runs.processes import process_table
from nemo_runs.processes.process_table import ProcessEntry

__all__ = [
    "Liveness",
    "ProcessGoneError",
    "ProcessIdentity",
    "become_subreaper",
    "c_library",
    "descendants",
    "end_tree",
    "identify",
    "kill_process",
    "liveness",
    "marked",
]

_PR_SET_CHILD_SUBREAPER = 36
_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1)
"""Seconds between two looks at a tree that is being ended; the last one again and again."""
_UNKILLABLE = 30.0
"""Seconds after which a process that survives SIGKILL (stuck in the kernel) is given up."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, never to be confused with a later one of the same number."""

    host: str
    boot_id: str
    pid_namespace: str
    """The namespace that the number belongs to; containers on one machine differ in it."""
    pid: int
    start_time: int
    """Clock ticks after boot, field 22 of ``/proc/<pid>/stat``."""

    def to_json(self) -> dict[str, Any]:
        """The fields as a JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ProcessIdentity:
        """Read what `to_json` wrote, ignoring further keys; raises `RunsError` when it is something else."""
        try:
            return cls(
                host=str(value["host"]),
                boot_id=str(value["boot_id"]),
                pid_namespace=str(value["pid_namespace"]),
                pid=int(value["pid"]),
                start_time=int(value["start_time"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RunsError(f"a record of a process is damaged: {error!r}") from error


class Liveness(StrEnum):
    """What can be said from here about a process."""

    ALIVE = "alive"
    DEAD = "dead"
    """Proven: the machine has booted since, or the process is gone or a zombie."""
    ELSEWHERE = "elsewhere"
    """On another host or in another pid namespace: nothing can be said from here."""


def identify(pid: int | None = None) -> ProcessIdentity:
    """The identity of a process on this machine, by default of this one; raises `ProcessGoneError`."""
    number = os.getpid() if pid is None else pid
    entry = process_table.read_entry(number)
    if entry is None:
        raise ProcessGoneError(f"there is no process {number}")
    return ProcessIdentity(
        os.uname().nodename, process_table.boot_id(), process_table.pid_namespace(), number, entry.start_time
    )


def liveness(identity: ProcessIdentity) -> Liveness:
    """Whether a process runs, is proven dead, or cannot be seen from here.

    The boot id decides which machine it is, since a machine keeps it when it is renamed. Only a process of
    another boot is compared by host name: on this host it is dead, on another one nothing can be said.
    """
    if not _is_this_boot(identity):
        return Liveness.DEAD if identity.host == os.uname().nodename else Liveness.ELSEWHERE
    if identity.pid_namespace != process_table.pid_namespace():
        return Liveness.ELSEWHERE
    entry = process_table.read_entry(identity.pid)
    if entry is None:
        return Liveness.ALIVE if _hidden(identity.pid) else Liveness.DEAD
    return Liveness.DEAD if entry.ended or entry.start_time != identity.start_time else Liveness.ALIVE


def descendants(pid: int) -> list[int]:
    """Children, their children and so on that run now (zombies left out), parents first."""
    table = process_table.read_all()
    return [number for number in process_table.below([pid], table) if not table[number].ended]


def marked(variable: str, value: str) -> list[int]:
    """Processes that were started with ``variable=value`` in their environment, with any parent."""
    return process_table.with_variable(variable, value)


@functools.cache
def c_library() -> ctypes.CDLL:
    """The C library of this process; to open it takes a while, and a forked child has it from its parent."""
    return ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Make this process the parent of every descendant that loses its own; raises `OSError`."""
    if c_library().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot become a subreaper: {os.strerror(number)}")


def kill_process(identity: ProcessIdentity) -> bool:
    """Send SIGKILL to this one process, if it runs here; whether it got it."""
    entry = process_table.read_entry(identity.pid) if _is_here(identity) else None
    if entry is None or entry.start_time != identity.start_time:
        return False
    return _signal(entry, signal.SIGKILL)


def end_tree(
    root: ProcessIdentity,
    *,
    grace: float,
    marker: tuple[str, str] | None = None,
    adopted: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[int]:
    """End a process with everything it started; return the numbers that had to be killed.

    SIGTERM goes to ``root``, its descendants, its session when it leads one, and to processes with the
    environment variable ``marker``, and what is stopped is woken; SIGKILL to what is left ``grace`` seconds
    later, until nothing is. With ``adopted`` all children of the calling process (a subreaper without other
    children) belong to the tree too. This process and its ancestors are never touched. What SIGKILL does not
    end within half a minute (stuck in the kernel) is given up.
    """
    tree = _Tree(root, marker, adopted=adopted)
    started = clock()
    killed: dict[int, None] = {}
    asked: set[tuple[int, int]] = set()
    for step in itertools.chain(_STEPS, itertools.repeat(_STEPS[-1])):
        members = tree.members()
        elapsed = clock() - started
        if not members or elapsed >= grace + _UNKILLABLE:
            break
        for entry in members:
            if elapsed >= grace:
                if _signal(entry, signal.SIGKILL):
                    killed[entry.pid] = None
                continue
            if (entry.pid, entry.start_time) not in asked:
                asked.add((entry.pid, entry.start_time))
                _signal(entry, signal.SIGTERM)
            # at each look: a process may be stopped between look and signal, and would sleep on what it got
            if entry.stopped:
                _signal(entry, signal.SIGCONT)
        sleep(min(step, grace - elapsed) if elapsed < grace else _STEPS[1])
    return list(killed)


class _Tree:
    """The processes of a tree, remembered, so that orphans stay known when their parents end."""

    def __init__(self, root: ProcessIdentity, marker: tuple[str, str] | None, *, adopted: bool) -> None:
        self._root = root if _is_here(root) else None
        self._marker = marker
        self._adopted = adopted
        self._known: dict[int, int] = {}
        """Start time by pid."""

    def members(self) -> list[ProcessEntry]:
        """All that run now, parents first, this process and its ancestors left out."""
        table = process_table.read_all()
        me = os.getpid()
        untouchable = process_table.above(me, table)
        seeds = dict.fromkeys([*self._roots(table), *self._remembered(table), *self._found_by_marker(table)])
        found = [*(pid for pid in seeds if pid != me), *process_table.below(seeds, table)]
        members = [table[pid] for pid in dict.fromkeys(found) if pid not in untouchable]
        self._known |= {entry.pid: entry.start_time for entry in members}
        return [entry for entry in members if not entry.ended]

    def _roots(self, table: Mapping[int, ProcessEntry]) -> list[int]:
        roots = [os.getpid()] if self._adopted else []
        entry = table.get(self._root.pid) if self._root else None
        if self._root is None or entry is None or entry.start_time != self._root.start_time:
            return roots
        # as long as the leader is there, be it as a zombie, its number names this session and no other
        return [*roots, entry.pid, *(other.pid for other in table.values() if other.session == entry.pid)]

    def _remembered(self, table: Mapping[int, ProcessEntry]) -> list[int]:
        return [
            pid
            for pid, start_time in self._known.items()
            if (entry := table.get(pid)) and entry.start_time == start_time
        ]

    def _found_by_marker(self, table: Mapping[int, ProcessEntry]) -> list[int]:
        pids = process_table.with_variable(*self._marker) if self._marker else []
        untouchable = process_table.above(os.getpid(), table)
        return [pid for pid in pids if pid in table and pid not in untouchable]


def _signal(entry: ProcessEntry, number: signal.Signals) -> bool:
    """Signal exactly this process, not a later one of the same number; false when it is gone or not ours."""
    descriptor = _open_process(entry.pid)
    try:
        current = process_table.read_entry(entry.pid)
        if current is None or current.start_time != entry.start_time:
            return False
        if descriptor is None:
            os.kill(entry.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def _open_process(pid: int) -> int | None:
    """Pin a process by a descriptor, so that its number cannot pass to another; Linux 5.3 or later."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _is_here(identity: ProcessIdentity) -> bool:
    return _is_this_boot(identity) and identity.pid_namespace == process_table.pid_namespace()


def _is_this_boot(identity: ProcessIdentity) -> bool:
    """Whether a process was started in this boot of this machine.

    Where the system does not report a boot id, the host name has to be the same, too.
    """
    boot_id = process_table.boot_id()
    known = boot_id != process_table.UNKNOWN_BOOT
    return identity.boot_id == boot_id and (known or identity.host == os.uname().nodename)


def _hidden(pid: int) -> bool:
    """Whether a process exists although ``/proc`` does not show it (``hidepid``)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process_table.read_entry(pid) is not None
