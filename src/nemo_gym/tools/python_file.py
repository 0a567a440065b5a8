"""Tools that are the functions of one Python file beside the config, run in a process of their own."""

from __future__ import annotations

import ast
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, model_validator

from nemo_gym.errors import ConfigError
from nemo_gym.tools import file_worker
from nemo_gym.tools.calling import (
    OpenTools,
    RolloutPlace,
    ToolCrashedError,
    ToolResult,
    ToolSchema,
    timed_out,
)
from nemo_gym.tools.tool_process import ToolProcess


class PythonFileToolsOptions(BaseModel):
    """Options of the tools of a Python file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = None
    """The file, relative to the config that names it. It is read when the config is loaded, and goes wherever
    the config goes."""
    source: str | None = None
    """The text of the file; put there in place of ``path`` when the config is loaded."""
    stateless: bool = False
    """Whether each call depends on its arguments alone."""

    @model_validator(mode="after")
    def _has_text(self) -> Self:
        if self.path is None and self.source is None:
            raise ValueError("needs a path, the Python file that holds the tools")
        return self


class PythonFileTools:
    """Each public function of the file is a tool; type hints and docstring become its schema."""

    Options: ClassVar[type[BaseModel]] = PythonFileToolsOptions

    def __init__(self, options: BaseModel) -> None:
        self.options = cast("PythonFileToolsOptions", options)
        self.stateless = self.options.stateless
        self._name = self.options.path or "tools.py"
        if self.options.source is None:
            raise ConfigError(f"{self._name} was not read: the config has a path and no source")
        self._source = self.options.source
        try:
            ast.parse(self._source, self._name)
        except (SyntaxError, ValueError) as error:
            raise ConfigError(f"{self._name} does not load: {file_worker.said(error)}") from error

    async def schemas(self, place: RolloutPlace) -> Sequence[ToolSchema]:
        """The functions of the file, as its process describes them."""
        try:
            process, schemas = await self._started(place)
        except ToolCrashedError as error:
            raise ConfigError(str(error)) from error
        await process.end()
        return [ToolSchema(**schema) for schema in schemas]

    @asynccontextmanager
    async def open(self, place: RolloutPlace) -> AsyncIterator[OpenTools]:
        """A process for this rollout."""
        process, _ = await self._started(place)
        try:
            yield _OpenFile(process)
        finally:
            await process.end()

    async def _started(self, place: RolloutPlace) -> tuple[ToolProcess, Any]:
        setup = {"name": self._name, "source": self._source, "row": place.row, "limit": place.output_bytes}
        argv = [place.python, "-c", _worker()]
        process, first = await ToolProcess.start(place, argv, setup, f"the process of {self._name}")
        if "schemas" not in first:
            await process.end()
            raise ToolCrashedError(str(first.get("problem")))
        return process, first["schemas"]


@functools.cache
def _worker() -> str:
    return Path(file_worker.__file__).read_text(encoding="utf-8")


class _OpenFile:
    def __init__(self, process: ToolProcess) -> None:
        self._process = process

    async def call(self, name: str, arguments: Mapping[str, Any], *, seconds: float) -> ToolResult:
        try:
            found = await self._process.ask({"name": name, "arguments": arguments}, seconds=seconds)
        except TimeoutError:
            return timed_out(seconds)
        return ToolResult(str(found["content"]), bool(found["error"]), int(found["bytes"]))
