"""What a sandbox is: values and protocols that those who run code and those who isolate it share.

A `Sandbox` opens sessions. A `SandboxSession` has one private folder, which its programs see as ``/work``,
and runs programs in it, one after the other or at once. A program has no root, no network, none of the user's
files and a clean environment; it sees the system's folders read-only. Every limit is one of the program with
all that it starts, and all of that has ended when its run is over.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from nemo_gym.errors import GymError

LimitName = Literal["seconds", "memory", "processes", "output", "disk"]
"""What can end a program, by the name of the limit that it went beyond."""
LimitsBy = Literal["cgroups", "watcher"]
"""``cgroups``: the kernel bounds memory and processes of the whole tree. ``watcher``: a thread of this
process looks at the tree many times a second, so that a quick program goes beyond before it is ended."""


class SandboxError(GymError):
    """The sandbox itself does not work, or broke while a program ran: nothing is said about the program."""


_KILLED: Final = 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program and all that it starts may take together."""

    seconds: float = 10.0
    """By the wall clock, from its start."""
    memory_bytes: int = 1024**3
    """Private and shared memory in use, swap included; files of the system that are mapped do not count."""
    processes: int = 64
    """Processes and threads at one time."""
    output_bytes: int = 1024**2
    """Of standard output, and of standard error likewise; of a program that is started: of one line."""
    disk_bytes: int = 256 * 1024**2
    """Files in the folders that the session's programs can write to, at one time."""


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended."""

    returncode: int
    """Its exit status as a shell says it: 128 + signal where a signal ended it, 127 where it is not there."""
    stdout: bytes
    stderr: bytes
    seconds: float
    """By the wall clock."""
    limit: LimitName | None = None
    """The limit that ended it; ``None``: it ended by itself."""
    truncated: bool = False
    """Whether it wrote more than is kept here."""

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL ended it and no limit of ours: it did that itself, or the machine is short of
        memory, or somebody ended it, which says nothing about the program.
        """
        return self.limit is None and self.returncode == _KILLED


@dataclass(frozen=True, slots=True)
class SandboxProbe:
    """Whether a sandbox works on this machine."""

    type: str
    works: bool
    reason: str = ""
    """Why it does not work, as one sentence."""
    limits_by: LimitsBy = "watcher"
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the programs that it needs, by name."""
    python_version: str = ""
    """Of the Python that programs find in it."""
    python_digest: str = ""
    """Of that Python's implementation, version and packages: the same on every machine that has the same."""
    notes: Sequence[str] = ()
    """What of the isolation is missing here, as sentences."""


class LineProcess(Protocol):
    """A program that is spoken to line by line over its standard input and output."""

    async def write_line(self, line: bytes) -> None:
        """Send one line, its end left out; raises `SandboxError` when the program has ended."""
        ...

    async def read_line(self) -> bytes | None:
        """The next line, its end left out; ``None`` once the program has ended and all is read."""
        ...

    async def stop(self) -> Completed:
        """End it, if it has not ended, with all that it started; ``stdout`` is what nobody has read.

        Called again it gives the same answer.
        """
        ...


class SandboxSession(Protocol):
    """One private folder, and programs that run in it."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        files: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
    ) -> Completed:
        """Run a program to its end, and end what it has left behind.

        ``files`` maps paths below ``/work`` to contents, written first; what is there is replaced. Raises
        `SandboxError` when the sandbox breaks, and `ValueError` for a path that leads out of ``/work``.
        """
        ...

    async def start(self, argv: Sequence[str], *, limits: Limits | None = None) -> LineProcess:
        """Start a program that goes on until it ends, its time is over, or the session is closed."""
        ...


class Sandbox(Protocol):
    """One way to isolate programs."""

    async def probe(self) -> SandboxProbe:
        """Whether it works here; tried once by running a program, and remembered."""
        ...

    def open(self) -> AbstractAsyncContextManager[SandboxSession]:
        """A session; when it is closed all of its programs have ended and its files are gone.

        Raises `SandboxError` on entry where the sandbox does not work.
        """
        ...
