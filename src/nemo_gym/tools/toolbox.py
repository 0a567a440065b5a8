"""All tools that an agent has: built from a config, described once, and opened for each rollout."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from nemo_gym import plugins
from nemo_gym.errors import ConfigError, GymError
from nemo_gym.sandbox.protocol import SandboxError
from nemo_gym.tools.calling import (
    OpenTools,
    RolloutPlace,
    ToolCrashedError,
    ToolResult,
    ToolSchema,
    Toolset,
    timed_out,
)
from nemo_gym.tools.places import Places
from nemo_gym.types import RolloutFailedError, Row
from nemo_runs.extensions import entry_points

TOOLS = plugins.PluginKind(
    noun="toolset",
    group="nemo_gym.tools",
    built_in={
        "bash": "nemo_gym.tools.code_tools:BashCodeTools",
        "file": "nemo_gym.tools.python_file:PythonFileTools",
        "mcp": "nemo_gym.tools.mcp_server:McpTools",
        "python": "nemo_gym.tools.code_tools:PythonCodeTools",
    },
)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_GRACE = 5.0
"""Seconds after which a toolset that does not keep to the time of a call is left."""


@dataclass(frozen=True, slots=True)
class _Entry:
    where: str
    type: str
    title: str
    toolset: Toolset


def runs_code_of_model(spec: Mapping[str, Any]) -> bool:
    """Whether the toolset that ``spec`` describes runs code that nobody has read; false for one that is not.

    Nothing of it is built.
    """
    try:
        return bool(getattr(plugins.load_class(TOOLS, spec, where="").cls, "needs_sandbox", False))
    except ConfigError:
        return False


class Toolbox:
    """The toolsets of one agent."""

    def __init__(
        self, specs: Sequence[Mapping[str, Any]], *, sandbox: Mapping[str, Any] | None, where: str
    ) -> None:
        """``specs``: type and options of each. Raises `ConfigError`, naming the path below ``where``."""
        self._entries = [_load(spec, f"{where}.tools[{number}]") for number, spec in enumerate(specs)]
        needs = any(getattr(entry.toolset, "needs_sandbox", False) for entry in self._entries)
        self._where = where
        files = [file for entry in self._entries for file in getattr(entry.toolset, "files", ())]
        self._places = Places(sandbox, needed=needs, files=files, where=f"{where}.sandbox")
        self._schemas: dict[str, tuple[int, ToolSchema]] | None = None
        self._describing = asyncio.Lock()

    @property
    def with_state(self) -> list[str]:
        """The paths of the toolsets whose calls depend on more than their arguments."""
        return [entry.where for entry in self._entries if not entry.toolset.stateless]

    async def schemas(self) -> list[ToolSchema]:
        """All tools, in the order of the config. Raises `ConfigError`."""
        return [schema for _, schema in (await self._described()).values()]

    async def facts(self) -> dict[str, str]:
        """What answers depend on beside the config: the schemas of each toolset, and where they run."""
        found: dict[str, list[ToolSchema]] = {entry.where: [] for entry in self._entries}
        for number, schema in (await self._described()).values():
            found[self._entries[number].where].append(schema)
        facts = {}
        for number, (where, schemas) in enumerate(found.items()):
            text = json.dumps([schema.to_request() for schema in schemas], sort_keys=True)
            names = ", ".join(schema.name for schema in schemas)
            kind = self._entries[number].type
            facts[where.rpartition(".")[2]] = (
                f"{kind} ({names}) sha256:{hashlib.sha256(text.encode()).hexdigest()}"
            )
        return facts | await self._places.facts()

    @asynccontextmanager
    async def open(self, row: Row, *, output_bytes: int) -> AsyncIterator[OpenToolbox]:
        """The tools for one rollout; nothing of them is started before the first call."""
        described = await self._described()
        async with AsyncExitStack() as stack:
            yield OpenToolbox(self._entries, described, self._places, stack, row, output_bytes)

    async def _described(self) -> dict[str, tuple[int, ToolSchema]]:
        async with self._describing:
            if self._schemas is None:
                try:
                    self._schemas = await self._describe()
                except SandboxError as error:
                    raise ConfigError(f"{self._where}.sandbox: {str(error).rstrip('.')}.") from error
            return self._schemas

    async def _describe(self) -> dict[str, tuple[int, ToolSchema]]:
        found: dict[str, tuple[int, ToolSchema]] = {}
        if not self._entries:
            return found
        async with self._places.open(None, output_bytes=0) as place:
            for number, entry in enumerate(self._entries):
                for schema in await _schemas_of(entry, place):
                    if not _NAME.fullmatch(schema.name):
                        raise ConfigError(
                            f"{entry.where}: {entry.title} names a tool {schema.name!r}; a name has up to 64 "
                            "letters, digits, '_' and '-'."
                        )
                    if schema.name in found:
                        other = self._entries[found[schema.name][0]].where
                        raise ConfigError(f"{entry.where}: the tool '{schema.name}' is one of {other}, too.")
                    found[schema.name] = (number, schema)
        return found


class OpenToolbox:
    """The tools within one rollout."""

    def __init__(
        self,
        entries: Sequence[_Entry],
        described: Mapping[str, tuple[int, ToolSchema]],
        places: Places,
        stack: AsyncExitStack,
        row: Row,
        output_bytes: int,
    ) -> None:
        self._entries = entries
        self._described = described
        self._places = places
        self._stack = stack
        self._row = row
        self._output_bytes = output_bytes
        self._place: RolloutPlace | None = None
        self._open: dict[int, OpenTools] = {}

    def has(self, name: str) -> bool:
        """Whether there is such a tool."""
        return name in self._described

    async def ready(self, names: Sequence[str]) -> None:
        """Open the toolsets of these tools. To be called by the task that opened the toolbox."""
        for number in sorted({self._described[name][0] for name in names} - self._open.keys()):
            entry = self._entries[number]
            try:
                if self._place is None:
                    place = self._places.open(self._row, output_bytes=self._output_bytes)
                    self._place = await self._stack.enter_async_context(place)
                self._open[number] = await self._stack.enter_async_context(entry.toolset.open(self._place))
            except (OSError, SandboxError) as error:
                raise ToolCrashedError(f"{entry.title} cannot be opened: {str(error).rstrip('.')}") from error

    async def call(self, name: str, arguments: Mapping[str, Any], *, seconds: float) -> ToolResult:
        """Call a tool whose toolset is `ready`. Raises `ToolCrashedError`."""
        entry = self._entries[self._described[name][0]]
        tools = self._open[self._described[name][0]]
        try:
            async with asyncio.timeout(seconds + _GRACE):
                result = await tools.call(name, arguments, seconds=seconds)
        except (RolloutFailedError, ConfigError):
            raise
        except TimeoutError:
            return timed_out(seconds)
        except SandboxError as error:
            raise ToolCrashedError(f"{entry.title}: {str(error).rstrip('.')}") from error
        except Exception as error:  # noqa: BLE001 - code of others, and what it raises is for the model
            return ToolResult(entry_points.said(error), error=True)
        given: object = result
        if not isinstance(given, ToolResult):
            return ToolResult(f"{entry.title} gave {result!r:.100}, and must give a ToolResult", error=True)
        return result


def _load(spec: Mapping[str, Any], where: str) -> _Entry:
    loaded = plugins.load_class(TOOLS, spec, where=where)
    options = plugins.check_options(loaded.cls.Options, spec, where=where)
    toolset = cast("Toolset", plugins.construct(loaded, Toolset, (options,), where=where))
    return _Entry(where, str(spec["type"]), loaded.title, toolset)


async def _schemas_of(entry: _Entry, place: RolloutPlace) -> Sequence[ToolSchema]:
    try:
        return await entry.toolset.schemas(place)
    except ConfigError as error:
        raise ConfigError(f"{entry.where}: {str(error).rstrip('.')}.") from error
    except GymError:
        raise
    except Exception as error:  # code of others
        raise ConfigError(
            f"{entry.where}: {entry.title} does not say what its tools are: {entry_points.said(error)}."
        ) from error
