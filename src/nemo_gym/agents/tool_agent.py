"""The agent with tools: the model calls them, sees what they give, and goes on until it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.agents.tool_loop import LoopLimits, ToolLoop
from nemo_gym.errors import ConfigError
from nemo_gym.tools.toolbox import Toolbox
from nemo_gym.types import Episode, Policy, Task

_WHERE = "benchmark.agent"


class ToolAgentOptions(BaseModel):
    """Options of the agent with tools."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tools: list[dict[str, Any]] = Field(default_factory=list)
    """Type and options of each toolset: `file`, `mcp`, `python`, `bash`, or one of another package."""
    sandbox: dict[str, Any] | None = None
    """Where the programs of all tools run; null: as plain programs, unless a toolset runs code of the
    model."""
    max_turns: int = Field(20, ge=1)
    """Answers of the model in one rollout."""
    field: str | None = None
    """The field of the row with what the user says one after the other; ``benchmark.prompt.turns`` sets it.
    Each is said once the one before is answered without a call."""
    max_total_tokens: int | None = Field(None, ge=1)
    """Tokens of all questions and answers of a rollout, as the server counts them; no further question is
    asked once there are as many."""
    max_seconds: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Seconds of one rollout; no further question is asked after them, and no call of a tool takes longer."""
    max_output_bytes: int = Field(16384, ge=1)
    """Bytes of one result that the model sees; where there are more, it reads so."""
    tool_timeout_seconds: float = Field(60, gt=0, allow_inf_nan=False)
    """Seconds of one call; the model reads that it took too long."""
    max_parallel_calls: int = Field(8, ge=1)
    """Calls of one answer that run side by side."""
    checkpoint_turns: bool = False
    """Store each turn, and go on from the last one when a rollout is started again; only where every toolset
    says `stateless: true`."""


class ToolAgent:
    """Ask, call the tools that the answer calls, and ask again with what they gave."""

    Options: ClassVar[type[BaseModel]] = ToolAgentOptions

    def __init__(self, options: BaseModel) -> None:
        """Raises `ConfigError` for toolsets that cannot be had, and for turns that could not be resumed."""
        self.options = cast("ToolAgentOptions", options)
        self.toolbox = Toolbox(self.options.tools, sandbox=self.options.sandbox, where=_WHERE)
        self.keeps_turns = self.options.checkpoint_turns
        with_state = self.toolbox.with_state
        if self.keeps_turns and with_state:
            raise ConfigError(
                f"{_WHERE}.checkpoint_turns: a resumed rollout would go on without what its tools had done "
                f"before; {', '.join(with_state)} must say 'stateless: true', or it is left out."
            )
        self._limits = LoopLimits(
            turns=self.options.max_turns,
            total_tokens=self.options.max_total_tokens,
            seconds=self.options.max_seconds,
            output_bytes=self.options.max_output_bytes,
            call_seconds=self.options.tool_timeout_seconds,
            parallel_calls=self.options.max_parallel_calls,
        )

    async def facts(self) -> Mapping[str, str]:
        """The tools as the model sees them, and what their programs run in."""
        return await self.toolbox.facts()

    async def run(self, task: Task, policy: Policy) -> Episode:
        """Play one rollout. A tool that loses its process is a failed rollout (``tool_crashed``)."""
        schemas = await self.toolbox.schemas()
        async with self.toolbox.open(task.row, output_bytes=self.options.max_output_bytes) as tools:
            field = self.options.field
            said = () if field is None else task.row[field][1:]  # the first is in the request already
            return await ToolLoop(task, policy, tools, schemas, self._limits, said=said).play()
