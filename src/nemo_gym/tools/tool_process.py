"""A process that answers numbered requests, several at once, one JSON object a line each way."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import orjson

from nemo_gym.sandbox.protocol import LineProcess, SandboxError
from nemo_gym.tools.calling import RolloutPlace, ToolCrashedError, how_it_ended

STARTING = 120.0
"""Seconds that a process may take until it answers for the first time: it loads libraries before."""


class ToolProcess:
    """A started process; its requests and answers carry an ``id``."""

    def __init__(self, process: LineProcess, title: str) -> None:
        self._process = process
        self._title = title
        self._numbers = itertools.count(1)
        self._waiting: dict[Any, asyncio.Future[Mapping[str, Any]]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._gone: str | None = None

    @classmethod
    async def start(
        cls, place: RolloutPlace, argv: Sequence[str], setup: Mapping[str, Any], title: str
    ) -> tuple[ToolProcess, Mapping[str, Any]]:
        """Start it and send ``setup``; with what it answered. Raises `ToolCrashedError`."""
        process = await place.start(argv, title)
        made = cls(process, title)
        try:
            async with asyncio.timeout(STARTING):
                with contextlib.suppress(SandboxError):  # that it has ended is seen, and why, by reading
                    await process.write_line(orjson.dumps(setup))
                first = await made._line()
        except TimeoutError:
            await process.stop()
            raise ToolCrashedError(f"{title} said nothing for {STARTING:g} s after its start") from None
        except BaseException:
            await process.stop()
            raise
        made._reader = asyncio.create_task(made._read())
        return made, first

    async def ask(self, request: Mapping[str, Any], *, seconds: float) -> Mapping[str, Any]:
        """The answer to one request. Raises `TimeoutError` and `ToolCrashedError`."""
        if self._gone is not None:
            raise ToolCrashedError(self._gone)
        number = next(self._numbers)
        # whole numbers of a model have any length, which only the standard library writes
        line = json.dumps({"id": number, **request}).encode()
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                with contextlib.suppress(SandboxError):  # the reader sees its end, and knows why
                    await self._process.write_line(line)
                found: Mapping[str, Any] = await answer
                return found
        finally:
            self._waiting.pop(number, None)

    async def end(self) -> None:
        """End it with all that it started."""
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        await self._process.stop()

    async def _read(self) -> None:
        try:
            while True:
                answer = await self._line()
                waiting = self._waiting.get(answer.get("id"))
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except ToolCrashedError as error:
            self._gone = str(error)
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ToolCrashedError(self._gone))

    async def _line(self) -> Mapping[str, Any]:
        try:
            line = await self._process.read_line()
        except SandboxError as error:
            raise ToolCrashedError(f"{self._title}: {str(error).rstrip('.')}") from error
        if line is None:
            raise ToolCrashedError(f"{self._title} {how_it_ended(await self._process.stop())}")
        answer: Any = None
        with contextlib.suppress(ValueError):
            answer = orjson.loads(line)
        if not isinstance(answer, dict):
            raise ToolCrashedError(f"{self._title} sent a line that is not an answer")
        return cast("Mapping[str, Any]", answer)
