"""Toolsets outside of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nemo_gym.tools.toolbox import OpenToolbox, Toolbox

Use = Callable[[OpenToolbox], Awaitable[Any]]


@pytest.fixture
def with_tools() -> Callable[..., Any]:
    """Run a coroutine function with the open tools of one rollout, each known tool ready."""

    def run(specs: list[dict[str, Any]], use: Use, *, row: dict[str, Any] | None = None, **more: Any) -> Any:
        async def opened() -> Any:
            box = Toolbox(specs, where="benchmark.agent", **{"sandbox": None, **more})
            names = [schema.name for schema in await box.schemas()]
            async with box.open(row or {}, output_bytes=10_000) as tools:
                await tools.ready(names)
                return await use(tools)

        return asyncio.run(opened())

    return run
