"""One program that runs in a sandbox: its streams, its limits, and the proof that all of it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nemo_gym.sandbox.cgroups import ControlGroup
from nemo_gym.sandbox.launching import DATA, STATUS, SandboxCommand
from nemo_gym.sandbox.protocol import LimitName, Limits, SandboxError
from nemo_gym.sandbox.watcher import WATCHER, WatchedTree
from nemo_runs.errors import ProcessGoneError
from nemo_runs.processes import process_table, trees

_BLOCK = 1 << 16
_END_WITHIN = 30.0
"""Seconds within which the kernel has ended what was killed."""
_TAIL = 400
_BEGAN = {"exit-code", "began"}
"""What a sandbox says, one or the other, once its program runs or has run."""
_EXIT_LOOKS = 0.1
"""Seconds between two looks whether a program has ended whose output somebody else still holds open."""


@dataclass(slots=True)
class KeptOutput:
    """The beginning of what was written to one stream."""

    most: int
    kept: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def add(self, block: bytes) -> bool:
        """Keep what fits; whether all of it did."""
        space = self.most - len(self.kept)
        self.kept += block[:space]
        self.truncated = self.truncated or len(block) > space
        return not self.truncated


class RunningProgram:
    """A started program with all that it starts."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        tree: WatchedTree,
        *,
        status: int | None,
        end_leftovers: Callable[[], None],
        group: ControlGroup | None,
    ) -> None:
        """``status``: the descriptor from which it is read what the sandbox says of itself; closed here."""
        self._process = process
        self._status = status
        self._started = time.monotonic()
        self._end_leftovers = end_leftovers
        self._identity = _identity(process.pid)
        self._tree = tree
        self._killed = False
        self._over = False
        self._group = group
        tree.kill = self.kill
        WATCHER.add(tree)

    @classmethod
    async def begin(
        cls,
        launch: SandboxCommand,
        folder: Path,
        limits: Limits,
        *,
        overhead: int,
        group: ControlGroup | None = None,
    ) -> Self:
        """Start it; ``overhead``: how many processes the sandbox has of its own; ``group``: where it runs.

        Raises `SandboxError` when not even the sandbox can be started.
        """
        numbers: dict[str, int] = {}
        reader: int | None = None
        try:
            if DATA in launch.argv:
                numbers[DATA] = _readable(launch.data)
            if STATUS in launch.argv:
                reader, numbers[STATUS] = os.pipe()
            argv = [*(group.prefix if group else ()), *(str(numbers.get(word, word)) for word in launch.argv)]
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(launch.env),
                cwd=launch.cwd,
                pass_fds=tuple(numbers.values()),
                start_new_session=True,
                limit=max(_BLOCK, limits.output_bytes),
            )
        except BaseException as error:
            if reader is not None:
                os.close(reader)
            if isinstance(error, OSError | ValueError):
                raise SandboxError(f"the sandbox cannot be started: {error}") from error
            raise
        finally:
            for descriptor in numbers.values():
                os.close(descriptor)
        exceeded = group.exceeded if group else None
        tree = WatchedTree(process.pid, limits, folder, overhead=overhead, exceeded=exceeded)
        return cls(process, tree, status=reader, end_leftovers=launch.end_leftovers, group=group)

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """Its standard input."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Its standard output."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> asyncio.StreamReader:
        """Its standard error."""
        assert self._process.stderr is not None
        return self._process.stderr

    def kill(self) -> None:
        """End all of it at once; from any thread."""
        self._killed = True
        if self._over or self._identity is None:
            return
        # with the first process of an inner namespace the kernel ends all that is in it at once
        if trees.liveness(self._identity) is trees.Liveness.ALIVE:
            for pid in filter(
                process_table.begins_namespace, process_table.descendants_of(self._process.pid)
            ):
                with contextlib.suppress(ProcessGoneError):
                    trees.kill_process(trees.identify(pid))
        trees.kill_process(self._identity)
        if self._group is not None:
            self._group.kill()
        self._end_leftovers()

    def end(self, limit: LimitName) -> None:
        """End it because of a limit."""
        self._tree.end(limit)

    async def feed(self, text: bytes) -> None:
        """Give it its standard input; it need not read it."""
        with contextlib.suppress(OSError):
            self.stdin.write(text)
            await self.stdin.drain()
        self.stdin.close()

    async def keep(self, stream: asyncio.StreamReader, kept: KeptOutput) -> None:
        """Read one of its streams to the end; too much ends it."""
        while block := await stream.read(_BLOCK):
            if not kept.add(block):
                self.end("output")

    async def ended(self, *reading: asyncio.Task[None]) -> None:
        """Wait until it has ended and those who read its streams have come to their ends."""
        pending = set(reading)
        while pending and self._process.returncode is None:
            _, pending = await asyncio.wait(pending, timeout=_EXIT_LOOKS)
        self._end_leftovers()
        if pending:
            _, pending = await asyncio.wait(pending, timeout=_END_WITHIN)
        if pending:
            raise SandboxError("what the sandbox started could not be ended")
        await self._process.wait()
        for task in reading:
            task.result()

    async def settled(self) -> tuple[int, LimitName | None]:
        """Exit status and limit, once it has ended; raises `SandboxError` when the sandbox broke.

        It returns only when the kernel has ended all that the program started.
        """
        returncode = await self._process.wait()
        self._over = True
        WATCHER.forget(self._tree)
        said = await asyncio.to_thread(self._inside_ended)
        if self._group is not None:
            self._tree.limit = self._tree.limit or self._group.exceeded()
            await asyncio.to_thread(self._group.remove)
        if self._tree.limit is None and self._tree.is_disk_full():
            self._tree.limit = "disk"
        if self._tree.failure:
            raise SandboxError(self._tree.failure)
        broke = (
            said is not None and not said.keys() & _BEGAN and not self._killed and self._tree.limit is None
        )
        if broke:
            raise SandboxBrokeError(returncode)
        status = int((said or {}).get("exit-code", returncode))
        return (128 - status if status < 0 else status), self._tree.limit

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._started

    def _inside_ended(self) -> dict[str, Any] | None:
        """What the sandbox has said of itself, once its first process, with which all others end, is gone."""
        if self._status is None:
            return None
        descriptor, self._status = self._status, None
        said: dict[str, Any] = {}
        with open(descriptor, "rb", buffering=0) as stream:
            os.set_blocking(descriptor, False)
            for line in (stream.read(_BLOCK) or b"").splitlines():
                with contextlib.suppress(ValueError):
                    said |= json.loads(line)
                if "began" in said:
                    break  # what follows the program itself may have written
        deadline = time.monotonic() + _END_WITHIN
        while _is_first_of(said):
            if time.monotonic() > deadline:
                raise SandboxError("what the sandbox started could not be ended")
            time.sleep(0.001)
        return said


class SandboxBrokeError(SandboxError):
    """The sandbox ended before the program, for a reason of its own."""

    def __init__(self, returncode: int) -> None:
        how = f"signal {-returncode}" if returncode < 0 else f"status {returncode}"
        super().__init__(f"the sandbox ended with {how} before its program did")


def end_of_output(text: bytes) -> str:
    """The end of what a program wrote, on one line."""
    return " ".join(text.decode(errors="replace").split())[-_TAIL:]


def _identity(pid: int) -> trees.ProcessIdentity | None:
    with contextlib.suppress(ProcessGoneError):
        return trees.identify(pid)
    return None


def _is_first_of(said: dict[str, Any]) -> bool:
    """Whether the process that begins the sandbox is there, and not a later one of its number."""
    pid, namespace = said.get("child-pid"), said.get("pid-namespace")
    entry = process_table.read_entry(pid) if isinstance(pid, int) else None
    if entry is None or entry.ended:
        return False
    try:
        return namespace is None or os.readlink(f"/proc/{pid}/ns/pid") == f"pid:[{namespace}]"
    except OSError:
        return False


def _readable(data: bytes) -> int:
    """A descriptor from which a little data is read."""
    reader, writer = os.pipe()
    with open(writer, "wb") as stream:
        stream.write(data)
    return reader
