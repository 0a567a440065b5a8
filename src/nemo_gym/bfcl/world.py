"""The world of one conversation: a process in a sandbox, in which what a model calls is evaluated."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from nemo_gym.sandbox.protocol import Completed, Limits, LineProcess, Sandbox, SandboxError, SandboxSession
from nemo_gym.types import Row

_OF_THE_WORLD = ("entry_id", "initial_config", "involved_classes")
_LASTING = 7 * 24 * 3600.0
"""Seconds that a conversation may take."""
_MEMORY = 1 << 30
_LINE = 64 << 20
"""Bytes of one line: results may list a whole world."""

_Running = tuple[LineProcess, str]
"""A process, and the secret of its answers."""
_Begin = Callable[[], Awaitable[_Running]]


class BrokenWorldError(Exception):
    """A call took too long or too much, or ended the process. It is the model's fault, not the sandbox's."""


class _WorldEndedError(Exception):
    """The process has ended."""

    def __init__(self, done: Completed) -> None:
        super().__init__(done.returncode)
        self.done = done


class CalledWorld:
    """A world that has begun. One that was killed is begun again, once, and all calls are made again."""

    def __init__(self, begin: _Begin, running: _Running, seconds: float) -> None:
        self._begin = begin
        self._running = running
        self._seconds = seconds
        self._called: list[Any] = []
        self._begun_again = False

    async def call(self, said: Any) -> Row:
        """Call what one answer calls: ``calls`` and ``results``, or ``problem`` where it cannot be read.

        Raises `BrokenWorldError`, and `nemo_gym.sandbox.protocol.SandboxError` where none can be begun again.
        """
        try:
            found = await self._call(said)
        except _WorldEndedError as error:
            if self._begun_again or not error.done.was_killed:
                raise BrokenWorldError(_ended(error.done)) from None
            self._begun_again, self._running = True, await self._begin()
            try:
                for before in self._called:
                    await self._call(before)
                found = await self._call(said)
            except _WorldEndedError as again:
                raise BrokenWorldError(_ended(again.done)) from None
        self._called.append(said)
        return found

    async def _call(self, said: Any) -> Row:
        process, secret = self._running
        try:
            await process.write_line(json.dumps(said).encode())
            line = await asyncio.wait_for(process.read_line(), self._seconds)
        except TimeoutError:
            await process.stop()
            raise BrokenWorldError(f"a call took more than {self._seconds:g} s") from None
        except SandboxError:  # it was ended after its last answer
            line = None
        found = None if line is None else _answer(line, secret)
        if found is None:
            raise _WorldEndedError(await process.stop())
        return found


@asynccontextmanager
async def begun(sandbox: Sandbox, python: str, row: Row, seconds: float) -> AsyncIterator[CalledWorld]:
    """Begin the world of a row; ``python`` has bfcl-eval, ``seconds`` is how long the calls of an answer may
    take.

    Raises `nemo_gym.sandbox.protocol.SandboxError` where the sandbox does not work.
    """
    async with sandbox.open() as session:

        async def begin() -> _Running:
            process = await session.start(_argv(python), limits=_limits(_LASTING))
            secret = secrets.token_hex(16)
            await process.write_line(_about(row, secret))
            return process, secret

        yield CalledWorld(begin, await begin(), seconds)  # the session ends what was started


async def checked(sandbox: Sandbox, python: str, row: Row, said: Any, seconds: float) -> Row:
    """Have bfcl-eval check a whole conversation, in a world of its own: ``valid``, ``error_type``, ``error``.

    Raises `BrokenWorldError`, and `nemo_gym.sandbox.protocol.SandboxError` where the sandbox does not work.
    """
    secret = secrets.token_hex(16)
    about = _about(row, secret, said=said, expected=row["expected_answer"])
    async with sandbox.open() as session:
        done = await _run(session, python, about, seconds)
    if done.was_killed:
        async with sandbox.open() as session:
            done = await _run(session, python, about, seconds)
    lines = done.stdout.splitlines()
    found = next((answer for line in lines if (answer := _answer(line, secret)) is not None), None)
    if found is None:
        raise BrokenWorldError(_ended(done))
    return found


async def _run(session: SandboxSession, python: str, about: bytes, seconds: float) -> Completed:
    return await session.run(_argv(python), stdin=about + b"\n", limits=_limits(seconds))


def _argv(python: str) -> list[str]:
    source = resources.files("nemo_gym") / "bfcl" / "worker" / "conversation.py"
    return [python, "-I", "-c", source.read_text(encoding="utf-8")]


def _limits(seconds: float) -> Limits:
    return Limits(seconds=seconds, memory_bytes=_MEMORY, output_bytes=_LINE)


def _about(row: Row, secret: str, **more: Any) -> bytes:
    known: Mapping[str, Any] = {"entry_id": row["id"], **row["bfcl"]}
    return json.dumps({"secret": secret, **{key: known[key] for key in _OF_THE_WORLD}, **more}).encode()


def _answer(line: bytes, secret: str) -> Row | None:
    """An answer of the program; what the code of a model may have printed is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.pop("secret", None) != secret:
        return None
    return found


def _ended(done: Completed) -> str:
    if done.limit is not None:
        return f"a call went beyond the limit of {done.limit}"
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"a call ended the process with {done.returncode}{': ' + last[0][:300] if last else ''}"
