"""What the kernel says about processes right now: parents, sessions, start times, environments."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nemo_runs.processes import ps

UNKNOWN_BOOT = ps.UNKNOWN_BOOT
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One process as the kernel describes it."""

    pid: int
    parent: int
    session: int
    start_time: int
    """Clock ticks since the machine's boot; seconds since the epoch where there is no ``/proc``."""
    ended: bool
    """A zombie, none of whose threads runs any more."""
    stopped: bool


def read_entry(pid: int) -> ProcessEntry | None:
    """One process, or `None` when there is none of that number (or it is hidden)."""
    if not _has_proc():
        return next((_from_columns(*row) for row in ps.columns(pid)), None)
    try:
        with open(f"{_PROC}/{pid}/stat", "rb", buffering=0) as file:
            text = file.readall()
    except OSError:
        return None
    # the second field, the program's name in parentheses, may hold anything: fields are counted behind it
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    state, threads = fields[0], int(fields[17])
    return ProcessEntry(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        start_time=int(fields[19]),
        ended=state in {b"X", b"x"} or (state == b"Z" and threads <= 1),
        stopped=state in {b"T", b"t"},
    )


def read_all() -> dict[int, ProcessEntry]:
    """Every process that can be seen; one that comes or goes meanwhile may be missing."""
    if not _has_proc():
        return {row[0]: _from_columns(*row) for row in ps.columns()}
    entries = (read_entry(pid) for pid in _pids())
    return {entry.pid: entry for entry in entries if entry}


def below(roots: Iterable[int], table: Mapping[int, ProcessEntry]) -> list[int]:
    """The descendants of ``roots``, parents before children, without the roots themselves."""
    children: dict[int, list[int]] = {}
    for entry in table.values():
        children.setdefault(entry.parent, []).append(entry.pid)
    start = set(roots)
    found: dict[int, None] = {}
    queue = list(start)
    for pid in queue:
        for child in children.get(pid, ()):
            if child not in found and child not in start:
                found[child] = None
                queue.append(child)
    return list(found)


def descendants_of(pid: int) -> list[int]:
    """Children of a process, their children and so on, parents first.

    Where the kernel lists children (``/proc/<pid>/task/<tid>/children``) nothing else is read.
    """
    if not _lists_children():
        return below([pid], read_all())
    found: dict[int, None] = {}
    queue = [pid]
    for number in queue:
        for child in _children(number):
            if child not in found and child != pid:
                found[child] = None
                queue.append(child)
    return list(found)


def above(pid: int, table: Mapping[int, ProcessEntry]) -> set[int]:
    """``pid`` and its ancestors, the machine's first process included."""
    found = {0, 1, pid}
    while (entry := table.get(pid)) and entry.parent not in found:
        pid = entry.parent
        found.add(pid)
    return found


def with_variable(variable: str, value: str) -> list[int]:
    """Processes that were started with ``variable=value`` in their environment, as far as it can be read."""
    wanted = os.fsencode(f"{variable}={value}")
    return [pid for pid in _pids() if wanted in _environment(pid)]


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal in place (ignoring it is not one)."""
    try:
        status = (_PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def begins_namespace(pid: int) -> bool:
    """Whether a process is the first one of a pid namespace within this one; all others there end with it."""
    try:
        lines = (_PROC / str(pid) / "status").read_bytes().splitlines()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in lines if line.startswith(b"NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == b"1"


def boot_id() -> str:
    """What names the machine's current boot."""
    if not _has_proc():
        return ps.boot_id()
    return _read_once(_PROC / "sys/kernel/random/boot_id")


def pid_namespace() -> str:
    """What names the namespace that process numbers belong to."""
    return os.readlink(_PROC / "self/ns/pid") if _has_proc() else "none"


@functools.cache
def _read_once(path: Path) -> str:
    """What stays the same for as long as this process lives."""
    return path.read_text(encoding="ascii").strip()


def _has_proc() -> bool:
    return _is_mounted(_PROC)


@functools.cache
def _is_mounted(proc: Path) -> bool:
    return (proc / "self").exists()


@functools.cache
def _lists_children() -> bool:
    return (_PROC / f"self/task/{os.getpid()}/children").exists()


def _children(pid: int) -> Iterator[int]:
    folder = _PROC / str(pid) / "task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return
    for thread in threads:
        try:
            text = (folder / thread / "children").read_bytes()
        except OSError:
            continue
        yield from map(int, text.split())


def _from_columns(pid: int, parent: int, group: int, state: str, start: int) -> ProcessEntry:
    return ProcessEntry(pid, parent, group, start, ended=state.startswith("Z"), stopped=state.startswith("T"))


def _pids() -> Iterator[int]:
    for name in os.listdir(_PROC) if _has_proc() else ():
        if name.isdecimal():
            yield int(name)


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
