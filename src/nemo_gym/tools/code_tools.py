"""Tools that run code of the model: Python and shell commands, in the sandbox of the rollout."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict

from nemo_gym.sandbox.protocol import Completed, Limits, SandboxError
from nemo_gym.tools.calling import OpenTools, RolloutPlace, ToolCrashedError, ToolResult, ToolSchema

_LONGEST_COMMAND = 100_000
"""Bytes; the system takes no more in one argument."""


class CodeToolsOptions(BaseModel):
    """Options of the tools that run code of the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str | None = None
    """What the model reads of the tool; null: what it does, in a sentence."""
    stateless: bool = False
    """Whether each call has a folder of its own, so that it depends on its arguments alone."""


class PythonCodeTools:
    """The tool ``python``: a program is run, and what it printed is the result."""

    Options: ClassVar[type[BaseModel]] = CodeToolsOptions
    needs_sandbox = True
    name = "python"
    parameter = "code"
    described = "Run a Python program and get what it prints."

    def __init__(self, options: BaseModel) -> None:
        self.options = cast("CodeToolsOptions", options)
        self.stateless = self.options.stateless

    async def schemas(self, place: RolloutPlace) -> Sequence[ToolSchema]:
        """One tool with one parameter; ``place`` is not looked at."""
        del place
        kept = "Nothing is kept" if self.stateless else "Files in the current folder are kept"
        description = self.options.description or f"{self.described} {kept} until the next call."
        properties = {self.parameter: {"type": "string"}}
        parameters = {
            "type": "object",
            "properties": properties,
            "required": [self.parameter],
            "additionalProperties": False,
        }
        return [ToolSchema(self.name, description, parameters)]

    @asynccontextmanager
    async def open(self, place: RolloutPlace) -> AsyncIterator[OpenTools]:
        """The sandbox of the rollout is all that it needs."""
        yield _OpenCode(self, place)

    def command(self, place: RolloutPlace, code: str) -> tuple[list[str], bytes]:
        """The program, and what it reads."""
        return [place.python, "-"], code.encode("utf-8", "replace")


class BashCodeTools(PythonCodeTools):
    """The tool ``bash``: a command is run, and what it printed is the result."""

    name = "bash"
    parameter = "command"
    described = "Run a shell command and get its output."

    def command(self, place: RolloutPlace, code: str) -> tuple[list[str], bytes]:
        """The program, and what it reads."""
        del place
        return ["bash", "-c", code], b""


class _OpenCode:
    def __init__(self, tools: PythonCodeTools, place: RolloutPlace) -> None:
        self._tools = tools
        self._place = place

    async def call(self, name: str, arguments: Mapping[str, object], *, seconds: float) -> ToolResult:
        code = arguments.get(self._tools.parameter)
        if not isinstance(code, str) or len(arguments) != 1:
            return ToolResult(f"{name} takes one argument, the text '{self._tools.parameter}'", error=True)
        argv, stdin = self._tools.command(self._place, code)
        if any("\0" in word or len(word.encode("utf-8", "replace")) > _LONGEST_COMMAND for word in argv):
            return ToolResult(
                f"a command may have {_LONGEST_COMMAND} bytes, and none that is zero", error=True
            )
        try:
            return result_of(await self._run(argv, stdin, self._place.of_call(seconds)))
        except SandboxError as error:
            raise ToolCrashedError(str(error).rstrip(".")) from error

    async def _run(self, argv: list[str], stdin: bytes, limits: Limits) -> Completed:
        if not self._tools.stateless:
            return await self._place.session.run(argv, stdin=stdin, limits=limits)
        async with self._place.sandbox.open() as session:
            return await session.run(argv, stdin=stdin, limits=limits)


def result_of(completed: Completed) -> ToolResult:
    """Output, errors and end of a program as one text."""
    parts = [completed.stdout.decode(errors="replace")]
    if completed.stderr:
        parts += ["[standard error]", completed.stderr.decode(errors="replace")]
    if completed.truncated:
        parts.append("[more was written than is kept]")
    if completed.limit is not None:
        parts.append(f"[ended by the limit of {completed.limit}]")
    elif completed.returncode:
        parts.append(f"[exit status {completed.returncode}]")
    text = "\n".join(part.rstrip("\n") for part in parts if part)
    return ToolResult(text, bool(completed.returncode) or completed.limit is not None)
