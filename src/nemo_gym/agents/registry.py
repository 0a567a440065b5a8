"""Agents by type: the built-in ones, and whatever the entry-point group ``nemo_gym.agents`` offers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pydantic import BaseModel

from nemo_gym import plugins
from nemo_gym.types import Agent, Episode, Policy, Task

AGENTS = plugins.PluginKind(
    noun="agent",
    group="nemo_gym.agents",
    built_in={
        "bfcl": "nemo_gym.bfcl.agent:BfclAgent",
        "command": "nemo_gym.command_benchmark.agent:CommandAgent",
        "lm_eval": "nemo_gym.harness.agent:HarnessAgent",
        "multi_turn": "nemo_gym.agents.multi_turn:MultiTurnAgent",
        "single_turn": "nemo_gym.agents.single_turn:SingleTurnAgent",
        "tools": "nemo_gym.agents.tool_agent:ToolAgent",
    },
    article="an",
)


def load_agent(spec: Mapping[str, Any], *, where: str = "benchmark.agent") -> GuardedAgent:
    """Build the agent that ``spec`` describes: its ``type`` and its own options.

    Raises `nemo_gym.errors.ConfigError`, naming the dotted path below ``where``.
    """
    loaded = plugins.load_class(AGENTS, spec, where=where)
    options = plugins.check_options(loaded.cls.Options, spec, where=where)
    return GuardedAgent(
        cast("Agent", plugins.construct(loaded, Agent, (options,), where=where)), loaded.title
    )


OPTIONAL = ("probe", "facts", "keeps_turns")
"""Members that an agent may have beside those of the protocol."""


class GuardedAgent:
    """An agent that gives an episode, or an error that names agent, package and row.

    It has those optional members that the other one has.
    """

    Options: ClassVar[type[BaseModel]] = BaseModel
    """None of its own: the other agent has been built."""

    def __init__(self, agent: Agent, title: str) -> None:
        """``title`` names it in messages, such as ``the agent 'loop' of the package toys``."""
        self.inner = agent
        self.title = title
        for name in OPTIONAL:
            if hasattr(agent, name):
                setattr(self, name, getattr(agent, name))

    async def run(self, task: Task, policy: Policy) -> Episode:
        """Have one rollout played."""
        title = f"{self.title}, asked to run row {task.task_index},"
        call = functools.partial(self.inner.run, task, policy)
        episode = await plugins.awaited(title, call, Episode, "agent_run_error")
        assert isinstance(episode, Episode)
        return episode


def agent_types() -> list[str]:
    """All agent types that can be asked for here."""
    return plugins.known_types(AGENTS)
