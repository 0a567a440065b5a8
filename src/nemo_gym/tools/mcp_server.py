"""Tools of an MCP server that is started as a program and spoken to over its standard input and output.

The protocol is that of the package ``mcp``, which is loaded when the first server is started. Each session of
it is entered and left by one task, and calls come from any.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.errors import ConfigError
from nemo_gym.sandbox.protocol import Completed, SandboxError
from nemo_gym.tools.calling import (
    OpenTools,
    RolloutPlace,
    ToolCrashedError,
    ToolResult,
    ToolSchema,
    how_it_ended,
    timed_out,
)

if TYPE_CHECKING:
    from mcp import ClientSession

    from nemo_gym.sandbox.protocol import LineProcess

_STARTING = 120.0
"""Seconds that a server may take until it has said what it offers."""
_MOST_PAGES = 100


class McpToolsOptions(BaseModel):
    """Options of the tools of an MCP server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: list[str] = Field(min_length=1)
    """The program that is the server, and its arguments. A word that begins with ``./`` or ``../`` is a file
    or folder beside the config that names it; a sandbox shows it to the program."""
    only: list[str] | None = None
    """The tools that the model gets; null: all that the server offers."""
    stateless: bool = False
    """Whether each call depends on its arguments alone."""


class McpTools:
    """The tools that a server offers; each rollout that calls one has a server of its own."""

    Options: ClassVar[type[BaseModel]] = McpToolsOptions

    def __init__(self, options: BaseModel) -> None:
        self.options = cast("McpToolsOptions", options)
        self.stateless = self.options.stateless
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError("tools of an MCP server need the package mcp: pip install 'nemo-baton[mcp]'")

    @property
    def files(self) -> list[str]:
        """The words of the command that are files or folders here, by full paths."""
        return [word for word in self.options.command if word.startswith("/") and os.path.exists(word)]

    async def schemas(self, place: RolloutPlace) -> Sequence[ToolSchema]:
        """What the server says that it offers."""
        await asyncio.to_thread(importlib.import_module, "mcp")  # it takes more than a second
        server = _Server(self.options.command, place)
        try:
            await server.ready()
            found = await server.tools()
        except ToolCrashedError as error:
            raise ConfigError(str(error)) from error
        finally:
            await server.end()
        only = self.options.only
        if only is not None:
            offered = [schema.name for schema in found]
            unknown = [name for name in only if name not in offered]
            if unknown:
                known = ", ".join(offered) or "none"
                raise ConfigError(f"{server.title} offers no tool '{unknown[0]}'; it offers {known}")
            found = [schema for schema in found if schema.name in only]
        return found

    @asynccontextmanager
    async def open(self, place: RolloutPlace) -> AsyncIterator[OpenTools]:
        """A server for this rollout."""
        server = _Server(self.options.command, place)
        try:
            await server.ready()
            yield server
        finally:
            await server.end()


class _Server:
    """One server; the task that serves it begins with the first `ready`."""

    def __init__(self, command: Sequence[str], place: RolloutPlace) -> None:
        self._command = command
        self._place = place
        self._serving: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[ClientSession] | None = None
        self._leave = asyncio.Event()
        self._has_ended = False
        """Whether it ended by itself."""
        self._ended: Completed | None = None
        self.title = f"the MCP server {' '.join(command)}"

    async def ready(self) -> ClientSession:
        """The session with it. Raises `ToolCrashedError`."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._ready))
        return await asyncio.shield(self._ready)

    async def tools(self) -> list[ToolSchema]:
        """All pages of what it offers."""
        import mcp_types

        session, found, cursor = await self.ready(), [], None
        for _ in range(_MOST_PAGES):
            params = mcp_types.PaginatedRequestParams(cursor=cursor)
            try:
                async with asyncio.timeout(_STARTING):
                    page = await session.list_tools(params=params)
            except Exception as error:  # of the server, or of the package that reads it
                raise ToolCrashedError(
                    f"{self.title} does not say what it offers ({_said(error)})"
                ) from error
            found += [ToolSchema(t.name, t.description or t.title or "", t.input_schema) for t in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def call(self, name: str, arguments: Mapping[str, Any], *, seconds: float) -> ToolResult:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        session = await self.ready()
        try:
            result = await session.call_tool(name, dict(arguments), read_timeout_seconds=seconds)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                return timed_out(seconds)
            if error.code == CONNECTION_CLOSED or (self._serving is not None and self._serving.done()):
                raise ToolCrashedError(f"{self.title} {await self._how_it_ended()}") from error
            return ToolResult(str(error), error=True)
        except RuntimeError as error:  # what the server gave is not what its own schema says
            return ToolResult(str(error), error=True)
        return ToolResult(_text(result), bool(result.is_error))

    async def end(self) -> None:
        self._leave.set()
        if self._serving is not None:
            with contextlib.suppress(Exception):
                await self._serving
        if self._ready is not None and self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # it was said to who waited

    async def _how_it_ended(self) -> str:
        if self._serving is not None:
            await asyncio.wait({self._serving})
        return "ended" if self._ended is None else how_it_ended(self._ended)

    async def _serve(self, ready: asyncio.Future[ClientSession]) -> None:
        """Start the server, and keep the session until it is to be left."""
        try:
            process = await self._place.start(self._command, self.title)
        except ToolCrashedError as error:
            ready.set_exception(error)
            return
        problem: Exception | None = None
        try:
            await self._converse(process, ready)
        except Exception as error:  # noqa: BLE001 - of the server, or of the package that reads it
            problem = error
        finally:
            self._ended = await process.stop()
        if problem is not None and not ready.done():
            why = f"and {how_it_ended(self._ended)}" if self._has_ended else f"({_said(problem)})"
            ready.set_exception(ToolCrashedError(f"{self.title} does not answer as one {why}"))

    async def _converse(self, process: LineProcess, ready: asyncio.Future[ClientSession]) -> None:
        import anyio
        from mcp import ClientSession
        from mcp.shared.message import SessionMessage

        to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](16)
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](16)
        pumps = [
            asyncio.create_task(_read(process, to_session)),
            asyncio.create_task(_write(process, from_session)),
        ]
        try:
            async with ClientSession(incoming, outgoing) as session:
                async with asyncio.timeout(_STARTING):
                    await session.initialize()
                ready.set_result(session)
                leaving = asyncio.create_task(self._leave.wait())
                await asyncio.wait({leaving, pumps[0]}, return_when=asyncio.FIRST_COMPLETED)
                leaving.cancel()
        finally:
            self._has_ended = pumps[0].done()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for stream in (to_session, incoming, outgoing, from_session):
                await stream.aclose()


async def _read(process: LineProcess, stream: Any) -> None:
    """Lines of the server to the session, until it ends; lines that hold no message are passed over."""
    import mcp_types
    from mcp.shared.message import SessionMessage

    async with stream:
        while (line := await process.read_line()) is not None:
            with contextlib.suppress(ValueError, RecursionError):
                message = mcp_types.jsonrpc_message_adapter.validate_json(_whole(line), by_name=False)
                await stream.send(SessionMessage(message))


def _whole(line: bytes) -> bytes:
    """A line with ``?`` for halves of characters, which servers write that cut a text in two."""
    if b"\\ud" not in line.lower():
        return line
    return json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")


async def _write(process: LineProcess, stream: Any) -> None:
    with contextlib.suppress(SandboxError):
        async with stream:
            async for item in stream:
                await process.write_line(
                    item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                )


def _text(result: Any) -> str:
    """The text of a result; other parts are named, and structured content is JSON where there is no text."""
    parts = []
    for part in result.content:
        kind = getattr(part, "type", "part")
        resource = getattr(part, "resource", None)
        text = getattr(part if resource is None else resource, "text", None)
        parts.append(text if isinstance(text, str) else f"[{kind}]")
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
