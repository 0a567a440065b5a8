"""Limits that the kernel holds for a whole tree of processes: control groups, version 2.

A process may use them where it was given a part of their tree (``systemd-run --user --scope`` with
``Delegate=yes``, say), and is alone in it with what it has started. It then moves to a group of its own in
that part, since groups that have processes cannot hand limits on, and makes one beside it for each program.
Groups of others are never touched.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.sandbox.launching import SPARE_PROCESSES
from nemo_gym.sandbox.protocol import LimitName, Limits, SandboxError
from nemo_runs.processes import process_table

_NEEDED = ("memory", "pids")
_OWN = "gym-own"
_EMPTY_WITHIN = 10.0
_ENTER = 'echo 0 >"$1" && shift && exec "$@"'


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The group of one program."""

    folder: Path

    @property
    def prefix(self) -> list[str]:
        """What goes before a command, so that it runs in the group from its beginning."""
        return ["/bin/sh", "-c", _ENTER, "sh", str(self.folder / "cgroup.procs")]

    def exceeded(self) -> LimitName | None:
        """The limit that the kernel enforced."""
        if self._events("memory.events").get("oom_kill"):
            return "memory"
        return "processes" if self._events("pids.events").get("max") else None

    def kill(self) -> None:
        """End all processes of the group, where the kernel does that at once (Linux 5.14)."""
        with contextlib.suppress(OSError):
            (self.folder / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Remove the group once its processes have ended."""
        deadline = time.monotonic() + _EMPTY_WITHIN
        while self.folder.exists():
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)

    def _events(self, name: str) -> dict[str, int]:
        with contextlib.suppress(OSError, ValueError):
            lines = (self.folder / name).read_text().splitlines()
            return {key: int(value) for key, value in (line.split() for line in lines)}
        return {}


class ControlGroups:
    """A part of the tree of groups that this process may divide."""

    def __init__(self, part: Path) -> None:
        self._part = part

    def new(self, limits: Limits, overhead: int) -> ControlGroup:
        """A group for one program; ``overhead``: processes of the sandbox's own. Raises `OSError`."""
        folder = self._part / f"gym-{uuid.uuid4().hex[:12]}"
        folder.mkdir()
        (folder / "memory.max").write_text(str(limits.memory_bytes))
        (folder / "memory.oom.group").write_text("1")
        with contextlib.suppress(OSError):  # a kernel without swap has no such file
            (folder / "memory.swap.max").write_text("0")
        (folder / "pids.max").write_text(str(limits.processes + overhead + SPARE_PROCESSES))
        return ControlGroup(folder)


def delegated(proc: Path = Path("/proc")) -> ControlGroups | None:
    """The part that this process was given, ready to be divided; ``None`` where it was given none."""
    try:
        part = own_group((proc / "self/cgroup").read_text(), (proc / "self/mountinfo").read_text())
        return ControlGroups(part) if part is not None and _is_ours(part) and _divide(part) else None
    except OSError:
        return None


@functools.cache
def of_this_process() -> ControlGroups | None:
    """The part that this process was given."""
    return delegated()


def new_group(limits: Limits, overhead: int) -> ControlGroup | None:
    """A group for one program, where this process may make any; raises `SandboxError`."""
    groups = of_this_process()
    try:
        return None if groups is None else groups.new(limits, overhead)
    except OSError as error:
        raise SandboxError(f"no control group can be made for the sandbox: {error}") from error


def own_group(cgroup: str, mountinfo: str) -> Path | None:
    """The folder of the group that a process is in, by its files ``cgroup`` and ``mountinfo``."""
    path = next((line[3:] for line in cgroup.splitlines() if line.startswith("0::")), None)
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if path is not None and after.split()[:1] == ["cgroup2"]:
            root, mounted = before.split()[3:5]
            if root in {"/", path} or path.startswith(f"{root}/"):
                return Path(mounted) / path.removeprefix(root).lstrip("/")
    return None


def _is_ours(part: Path) -> bool:
    """Whether we may divide a group, and nobody else is in it."""
    files = (part / "cgroup.procs", part / "cgroup.subtree_control")
    if not (part / "cgroup.type").exists() or not all(os.access(path, os.W_OK) for path in (part, *files)):
        return False
    if not set(_NEEDED) <= set((part / "cgroup.controllers").read_text().split()):
        return False
    ours = {os.getpid(), *process_table.descendants_of(os.getpid())}
    return {int(pid) for pid in files[0].read_text().split()} <= ours


def _divide(part: Path) -> bool:
    own = part / _OWN
    own.mkdir(exist_ok=True)
    for pid in (part / "cgroup.procs").read_text().split():
        (own / "cgroup.procs").write_text(pid)
    (part / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _NEEDED))
    return set(_NEEDED) <= set((part / "cgroup.subtree_control").read_text().split())
