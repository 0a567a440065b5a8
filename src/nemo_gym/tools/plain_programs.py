"""The user's own programs, run beside this one where no sandbox is configured: nothing is kept from them.

They have the environment of this process and a folder of their own, and are ended with all that they started.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

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
        process = await _PlainProcess.start(argv, self._folder, (limits or Limits()).output_bytes)
        self._started.append(process)
        return await process.run(stdin, (limits or Limits()).seconds)

    async def start(self, argv: Sequence[str], *, limits: Limits | None = None) -> LineProcess:
        process = await _PlainProcess.start(argv, self._folder, (limits or Limits()).output_bytes)
        self._started.append(process)
        return process

    async def close(self) -> None:
        for process in self._started:
            await process.stop()


class _PlainProcess:
    """One program; its standard error goes to a file, so that it never waits for a reader."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str, errors: IO[bytes]) -> None:
        self._process = process
        self._mark = mark
        self._errors = errors
        self._identity = _identity(process.pid)
        self._began = time.monotonic()
        self._completed: Completed | None = None
        self._stopping = asyncio.Lock()

    @classmethod
    async def start(cls, argv: Sequence[str], folder: Path, longest_line: int) -> _PlainProcess:
        mark = uuid.uuid4().hex
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is open for as long as the program lives
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env={**os.environ, _MARKER: mark},
                start_new_session=True,
                limit=longest_line,
            )
        except BaseException:
            errors.close()
            raise
        return cls(process, mark, errors)

    async def run(self, stdin: bytes, seconds: float) -> Completed:
        """Let it run to its end, for ``seconds`` at most."""
        out, in_time = b"", True
        try:
            async with asyncio.timeout(seconds):
                out, _ = await self._process.communicate(stdin)
        except TimeoutError:
            in_time = False
        ended = await self.stop()
        limit: LimitName | None = None if in_time else "seconds"
        return Completed(ended.returncode, out, ended.stderr, ended.seconds, limit)

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
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _KEPT_OF_ERRORS))
        words = self._errors.read()
        self._errors.close()
        took = time.monotonic() - self._began
        return Completed(ended if ended >= 0 else _OF_SIGNALS - ended, b"", words, took)


def _identity(pid: int) -> trees.ProcessIdentity:
    """Who a child is; of one that has ended already an identity that nobody has any more."""
    try:
        return trees.identify(pid)
    except ProcessGoneError:
        return replace(trees.identify(), pid=pid, start_time=0)
