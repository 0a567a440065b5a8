"""Agents by type: ``single_turn``, and whatever the entry-point group ``nemo_gym.agents`` offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from nemo_gym import plugins
from nemo_gym.types import Agent

AGENTS = plugins.PluginKind(
    noun="agent",
    group="nemo_gym.agents",
    built_in={
        "lm_eval": "nemo_gym.harness.agent:HarnessAgent",
        "single_turn": "nemo_gym.agents.single_turn:SingleTurnAgent",
    },
    article="an",
)


def load_agent(spec: Mapping[str, Any], *, where: str = "benchmark.agent") -> Agent:
    """Build the agent that ``spec`` describes: its ``type`` and its own options.

    Raises `nemo_gym.errors.ConfigError`, naming the dotted path below ``where``.
    """
    cls = plugins.load_class(AGENTS, spec, where=where)
    options = plugins.check_options(cls.Options, spec, where=where)
    return cast("Agent", plugins.construct(cls, Agent, (options,), where=where))


def agent_types() -> list[str]:
    """All agent types that can be asked for here."""
    return plugins.known_types(AGENTS)
