"""The user's own programs, run beside this one where no sandbox is configured: nothing is kept from them.

They have the environment of this process and a folder of their own, and are ended with all that they started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from nemo_gym.sandbox.folders import write_files
from nemo_gym.sandbox.protocol import (
    Completed,
    LimitName,
    Limits,
    LineProcess,
    SandboxError,
    SandboxProbe,
    SandboxSession,
)
from nemo_runs.errors import ProcessGoneError
from nemo_runs.processes import trees

_MARKER = "GYM_TOOL_PROGRAM"
"""The environment variable by which what a program started is found, in whatever session that runs."""
_OF_SIGNALS = 128
"""What a shell adds to the number of the signal that ended a program."""
_BLOCK = 1 << 16
_KEPT_OF_ERRORS = 4096
"""Bytes of standard error that are kept of a program that ended."""


class PlainPrograms:
    """A `nemo_gym.sandbox.protocol.Sandbox` that isolates nothing and limits nothing but time."""

    async def probe(self) -> SandboxProbe:
        """It always works."""
        return SandboxProbe("none", works=True)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SandboxSession]:
        """A folder, and the programs in it."""
        with tempfile.TemporaryDirectory(prefix="gym-tools-", ignore_cleanup_errors=True) as folder:
            session = _PlainSession(Path(folder))
            try:
                yield session
            finally:
                await asyncio.shield(session.close())


class _PlainSession:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[_PlainProcess] = []

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        files: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
    ) -> Completed:
        write_files(self._folder, files or {})
        given = limits or Limits()
        process = await self._start(argv, given.output_bytes, given.output_bytes)
        return await process.run(stdin, given)

    async def start(self, argv: Sequence[str], *, limits: Limits | None = None) -> LineProcess:
        return await self._start(argv, (limits or Limits()).output_bytes, _KEPT_OF_ERRORS)

    async def close(self) -> None:
        for process in self._started:
            await process.stop()

    async def _start(self, argv: Sequence[str], longest_line: int, errors: int) -> _PlainProcess:
        process = await _PlainProcess.start(argv, self._folder, longest_line, errors)
        self._started.append(process)
        return process


class _PlainProcess:
    """One program; its standard error is read all the time, so that it never waits for a reader."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str, errors: int) -> None:
        assert process.stderr is not None
        self._process = process
        self._mark = mark
        self._errors = asyncio.create_task(_end_of(process.stderr, errors))
        self._identity = _identity(process.pid)
        self._began = time.monotonic()
        self._completed: Completed | None = None
        self._stopping = asyncio.Lock()

    @classmethod
    async def start(cls, argv: Sequence[str], folder: Path, longest_line: int, errors: int) -> _PlainProcess:
        mark = uuid.uuid4().hex
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env={**os.environ, _MARKER: mark},
            start_new_session=True,
            limit=longest_line,
        )
        return cls(process, mark, errors)

    async def run(self, stdin: bytes, limits: Limits) -> Completed:
        """Let it run to its end, for a time."""
        assert self._process.stdout is not None
        out, whole, in_time = b"", True, True
        try:
            async with asyncio.timeout(limits.seconds):
                feeding = asyncio.create_task(self._feed(stdin))
                out, whole = await _beginning_of(self._process.stdout, limits.output_bytes)
                await feeding
                await self._process.wait()
        except TimeoutError:
            in_time = False
        ended = await self.stop()
        limit: LimitName | None = None if in_time else "seconds"
        return Completed(ended.returncode, out, ended.stderr, ended.seconds, limit, not whole)

    async def _feed(self, stdin: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(stdin)
            await self._process.stdin.drain()
        self._process.stdin.close()

    async def write_line(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            await self._process.stdin.drain()
        except OSError as error:
            raise SandboxError("the program has ended") from error

    async def read_line(self) -> bytes | None:
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
        except ValueError as error:
            raise SandboxError("the program wrote a line that is longer than any may be") from error
        return line.removesuffix(b"\n") if line else None

    async def stop(self) -> Completed:
        async with self._stopping:
            if self._completed is None:
                self._completed = await self._end()
            return self._completed

    async def _end(self) -> Completed:
        await asyncio.to_thread(trees.end_tree, self._identity, grace=0, marker=(_MARKER, self._mark))
        ended = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        words = await self._errors
        took = time.monotonic() - self._began
        return Completed(ended if ended >= 0 else _OF_SIGNALS - ended, b"", words, took)


async def _end_of(stream: asyncio.StreamReader, size: int) -> bytes:
    """The last bytes of a stream, once it has ended."""
    kept = b""
    while block := await stream.read(_BLOCK):
        kept = (kept + block)[-size:]
    return kept


async def _beginning_of(stream: asyncio.StreamReader, size: int) -> tuple[bytes, bool]:
    """The first bytes of a stream, once it has ended, and whether that is all."""
    kept, length = bytearray(), 0
    while block := await stream.read(_BLOCK):
        length += len(block)
        kept += block[: max(0, size - len(kept))]
    return bytes(kept), length <= size


def _identity(pid: int) -> trees.ProcessIdentity:
    """Who a child is; of one that has ended already an identity that nobody has any more."""
    try:
        return trees.identify(pid)
    except ProcessGoneError:
        return replace(trees.identify(), pid=pid, start_time=0)
