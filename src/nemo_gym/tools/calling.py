"""What a tool is: a schema that the model sees, and a call that gives text or an error.

A `Toolset` is what one entry of ``tools`` in a config describes. It is opened for each rollout that calls one
of its tools, so that no rollout sees the state of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel

from nemo_gym.sandbox.protocol import Completed, Limits, LineProcess, Sandbox, SandboxError, SandboxSession
from nemo_gym.types import RolloutFailedError, Row

LASTING = 7 * 24 * 3600.0
"""Seconds that a program may live that lives as long as its rollout does."""
_OF_SIGNALS = 128
"""What is added to the number of the signal that ended a program."""
_LONGEST_LINE = 16 << 20
"""Bytes; a result comes as one line."""
CRASHED = "tool_crashed"
"""Failure class of a rollout whose tool lost its process."""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """What a model is shown of a tool."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, an object."""

    def to_request(self) -> Row:
        """A function tool of the OpenAI Responses API."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave; an error is shown to the model like any other result."""

    content: str
    error: bool = False
    size: int | None = None
    """Bytes of the whole result where ``content`` is its beginning."""


class ToolCrashedError(RolloutFailedError):
    """The process of a tool is gone, so the rollout cannot go on; it is tried again like other failures."""

    def __init__(self, message: str) -> None:
        super().__init__(CRASHED, message)


def how_it_ended(completed: Completed) -> str:
    """How a program ended that should go on, as the end of a sentence."""
    if completed.limit is not None:
        return f"was ended by its limit of {completed.limit}"
    status = completed.returncode
    words = f"signal {status - _OF_SIGNALS}" if status > _OF_SIGNALS else f"status {status}"
    last = completed.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"ended ({words}{': ' + last[0][:500] if last else ''})"


def timed_out(seconds: float) -> ToolResult:
    """What the model sees of a call that took too long."""
    return ToolResult(f"the call took more than {seconds:g} s and was given up", error=True)


class OpenTools(Protocol):
    """A toolset within one rollout."""

    async def call(self, name: str, arguments: Mapping[str, Any], *, seconds: float) -> ToolResult:
        """Call a tool. Several calls may run side by side.

        What the tool raises, bad arguments and a call that took more than ``seconds`` are results with
        ``error``. Raises `ToolCrashedError` where the state of the rollout is lost.
        """
        ...


@dataclass(frozen=True, slots=True)
class RolloutPlace:
    """Where the tools of one rollout run, and their programs with them."""

    session: SandboxSession
    """Shared by all toolsets of the rollout; of the type ``none`` where no sandbox is configured."""
    python: str
    """The Python there."""
    output_bytes: int
    """More of a result is not shown to the model; a toolset may leave the rest out."""
    limits: Limits
    """Of each program there; how long it may run is said where it is started."""
    sandbox: Sandbox
    """What the session is one of; for a call that has another one to itself."""
    row: Row | None = None
    """The row of the task; ``None`` where only the schemas are asked for."""

    def of_call(self, seconds: float) -> Limits:
        """The limits of a program that may run for ``seconds``."""
        return replace(self.limits, seconds=seconds)

    async def start(self, argv: Sequence[str], title: str) -> LineProcess:
        """Start a program that lives as long as the rollout does, unless it ends before.

        Raises `ToolCrashedError`, which names it by ``title``.
        """
        limits = replace(self.limits, seconds=LASTING, output_bytes=max(_LONGEST_LINE, 8 * self.output_bytes))
        try:
            return await self.session.start(argv, limits=limits)
        except (OSError, SandboxError) as error:
            raise ToolCrashedError(f"{title} cannot be started ({str(error).rstrip('.')})") from error


@runtime_checkable
class Toolset(Protocol):
    """Tools of one origin. Built as ``ToolsetClass(options)``.

    ``stateless`` says that each call depends on its arguments alone, so that a rollout may be resumed without
    the calls before; it is the user's word, by an option of that name. A class whose tools run code of the
    model says ``needs_sandbox = True``. One whose programs read files of the machine lists their paths in
    ``files``, so that they are there in a sandbox, too.
    """

    Options: ClassVar[type[BaseModel]]
    """Schema of the toolset's own options in the config, ``type`` left out."""
    stateless: bool

    async def schemas(self, place: RolloutPlace) -> Sequence[ToolSchema]:
        """The tools; asked once before the first request.

        Raises `nemo_gym.errors.ConfigError` with one sentence where they cannot be had.
        """
        ...

    def open(self, place: RolloutPlace) -> AbstractAsyncContextManager[OpenTools]:
        """The tools for one rollout; leaving the context ends everything that they started."""
        ...
