"""The files that an agent's tools name in a config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def tool_specs(agent: Any) -> Iterator[dict[str, Any]]:
    """The descriptions of an agent's toolsets, as far as they are some."""
    if isinstance(agent, dict) and agent.get("type") == "tools":
        tools = agent.get("tools")
        yield from (spec for spec in (tools if isinstance(tools, list) else ()) if isinstance(spec, dict))


def file_specs(agent: Any) -> Iterator[dict[str, Any]]:
    """Those that are Python files."""
    return (spec for spec in tool_specs(agent) if spec.get("type") == "file")
