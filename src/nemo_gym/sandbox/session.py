"""A session of any kind of sandbox: its folder, and the programs that run in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from nemo_gym.sandbox import cgroups, folders, scratch
from nemo_gym.sandbox.launching import MOUNTED_AT, WORK, SandboxKind
from nemo_gym.sandbox.protocol import Completed, Limits, SandboxError
from nemo_gym.sandbox.running import KeptOutput, RunningProgram, SandboxBrokeError, end_of_output

_LAST_LINES = 1 << 16
"""Bytes of a started program's standard error that are kept."""


@contextlib.asynccontextmanager
async def session(launcher: SandboxKind, limits: Limits) -> AsyncIterator[FolderSession]:
    """A session whose programs have these limits unless they are given others."""
    folder = await asyncio.to_thread(_new_folder, launcher)
    opened = FolderSession(launcher, folder, limits)
    try:
        yield opened
    finally:
        await asyncio.shield(opened.close())


class FolderSession:
    """See `nemo_gym.sandbox.protocol.SandboxSession`."""

    def __init__(self, launcher: SandboxKind, place: tuple[Path, int | None], limits: Limits) -> None:
        """``place``: the folder, and the user that its files belong to."""
        self._launcher = launcher
        self._folder, self._owner = place
        self._limits = limits
        self._live: set[RunningProgram] = set()
        self._started: list[StartedProgram] = []

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        files: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
    ) -> Completed:
        """See the protocol."""
        bounds = limits or self._limits
        if files:
            await asyncio.to_thread(self._write, files)
        program = await self._begin(argv, bounds)
        out, err = KeptOutput(bounds.output_bytes), KeptOutput(bounds.output_bytes)
        reading = [
            asyncio.create_task(program.keep(program.stdout, out)),
            asyncio.create_task(program.keep(program.stderr, err)),
        ]
        feeding = asyncio.create_task(program.feed(stdin))
        try:
            await program.ended(*reading)
            done = await self._completed(program, out, err)
            if done.returncode and done.limit is None and folders.is_disk_full(self._folder):
                raise SandboxError(
                    f"no space is left in {self._folder.parent.parent}, where the sandbox has its files, so "
                    "a program that failed may have failed of that; free some, or set TMPDIR"
                )
            return done
        finally:
            await asyncio.shield(self._end(program, feeding, *reading))

    async def start(self, argv: Sequence[str], *, limits: Limits | None = None) -> StartedProgram:
        """See the protocol."""
        bounds = limits or self._limits
        started = StartedProgram(self, await self._begin(argv, bounds), bounds)
        self._started.append(started)
        return started

    async def close(self) -> None:
        """End its programs and remove its folder."""
        for program in self._live:
            program.kill()
        for started in self._started:
            with contextlib.suppress(SandboxError):
                await started.stop()
        await asyncio.to_thread(folders.remove, self._folder)

    async def _begin(self, argv: Sequence[str], limits: Limits) -> RunningProgram:
        kind = self._launcher
        launch = kind.launch(argv, self._folder, limits, self._owner)
        group = cgroups.new_group(limits, kind.overhead)
        try:
            program = await RunningProgram.begin(
                launch, self._folder, limits, overhead=kind.overhead, group=group
            )
        except BaseException:
            if group is not None:
                group.remove()
            raise
        self._live.add(program)
        return program

    async def _end(self, program: RunningProgram, *tasks: asyncio.Task[None]) -> None:
        """Give up what still serves a program; one that was left before its end is ended."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if program not in self._live:
            return
        program.kill()
        with contextlib.suppress(SandboxError):
            streams = (program.stdout, program.stderr)
            rest = [asyncio.create_task(program.keep(stream, KeptOutput(0))) for stream in streams]
            await program.ended(*rest)
            await program.settled()
        self._live.discard(program)

    async def _completed(self, program: RunningProgram, out: KeptOutput, err: KeptOutput) -> Completed:
        seconds = program.seconds
        try:
            status, limit = await program.settled()
        except SandboxBrokeError as error:
            raise SandboxError(f"{error}: {end_of_output(bytes(err.kept)) or 'it said nothing'}") from error
        self._live.discard(program)
        truncated = out.truncated or err.truncated
        return Completed(status, bytes(out.kept), bytes(err.kept), seconds, limit, truncated)

    def _write(self, files: Mapping[str, bytes]) -> None:
        try:
            folders.write_files(self._folder / WORK, files, self._owner)
        except OSError as error:
            raise SandboxError(f"a file cannot be written into the sandbox: {error}") from error


class StartedProgram:
    """See `nemo_gym.sandbox.protocol.LineProcess`."""

    def __init__(self, session: FolderSession, program: RunningProgram, limits: Limits) -> None:
        self._session = session
        self._program = program
        self._err = KeptOutput(_LAST_LINES)
        self._errors = asyncio.create_task(self._read_errors())
        self._most = limits.output_bytes
        self._cut = False
        self._completed: Completed | None = None
        self._stopping = asyncio.Lock()

    async def write_line(self, line: bytes) -> None:
        """See the protocol."""
        try:
            self._program.stdin.write(line + b"\n")
            await self._program.stdin.drain()
        except OSError as error:
            said = end_of_output(bytes(self._err.kept))
            raise SandboxError(
                f"the program in the sandbox has ended: {said or 'it said nothing'}"
            ) from error

    async def read_line(self) -> bytes | None:
        """See the protocol; a line that is too long ends the program."""
        try:
            line = await self._program.stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            return error.partial or None
        except asyncio.LimitOverrunError:
            self._cut = True
            self._program.end("output")
            return None
        return line[:-1]

    async def stop(self) -> Completed:
        """See the protocol."""
        async with self._stopping:
            if self._completed is None:
                self._completed = await self._stop()
            return self._completed

    async def _stop(self) -> Completed:
        self._program.kill()
        self._program.stdin.close()
        out = KeptOutput(self._most)
        reading = asyncio.create_task(self._program.keep(self._program.stdout, out))
        await self._program.ended(reading, self._errors)
        out.truncated = out.truncated or self._cut
        return await self._session._completed(self._program, out, self._err)  # noqa: SLF001 - its own session

    async def _read_errors(self) -> None:
        """Read all of standard error, so that writing there never has to wait, and keep the beginning."""
        while block := await self._program.stderr.read(_LAST_LINES):
            self._err.add(block)


def _new_folder(launcher: SandboxKind) -> tuple[Path, int | None]:
    folder, owner = scratch.of_this_process().new_folder(), launcher.owner()
    for name in MOUNTED_AT:
        (folder / name).mkdir(0o700)
        if owner is not None:
            os.chown(folder / name, owner, owner)
    return folder, owner
