"""Tools of a Python file: their process, their state, and what becomes of the rollout when they break."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.tools.calling import ToolCrashedError, ToolResult
from nemo_gym.tools.toolbox import OpenToolbox, Toolbox

pytestmark = pytest.mark.slow

FILE = '''
import os, sys, time
print("loaded")
count = 0
name = "nobody"

def start_rollout(row):
    global name
    name = row.get("name", name)

def next_number() -> int:
    """Count."""
    global count
    count += 1
    return count

def who() -> dict:
    """Say who."""
    print("noise")
    return {"name": name, "pid": os.getpid(), "folder": os.listdir(".")}

async def echo(text: str) -> str:
    """Say it again."""
    return text

def fail(how: str) -> str:
    """Go wrong."""
    if how == "raise":
        raise ValueError("oh no")
    if how == "exit":
        sys.exit(3)
    if how == "hang":
        time.sleep(100)
    print("why it ended", file=sys.stderr)
    os._exit(7)

def double(number: int | float) -> str:
    """Twice as much."""
    return str(2 * number)
'''
SPECS = [{"type": "file", "path": "tools.py", "source": FILE}]


def test_state_is_that_of_one_rollout(with_tools: Any) -> None:
    async def use(tools: OpenToolbox) -> list[ToolResult]:
        numbers = [await tools.call("next_number", {}, seconds=60) for _ in range(3)]
        return [*numbers, await tools.call("who", {}, seconds=60)]

    *numbers, who = with_tools(SPECS, use, row={"name": "ada"})
    assert [result.content for result in numbers] == ["1", "2", "3"]
    assert '"name": "ada"' in who.content
    assert f'"pid": {os.getpid()}' not in who.content
    assert [result.content for result in with_tools(SPECS, use)[:1]] == ["1"]


def test_numbers_of_any_length_reach_a_tool(with_tools: Any) -> None:
    async def use(tools: OpenToolbox) -> list[ToolResult]:
        numbers = (10**30, float("inf"))
        return [await tools.call("double", {"number": number}, seconds=60) for number in numbers]

    results = with_tools(SPECS, use)
    assert [(one.content, one.error) for one in results] == [(str(2 * 10**30), False), ("inf", False)]


def test_what_a_tool_raises_and_wrong_arguments_are_for_the_model(with_tools: Any) -> None:
    async def use(tools: OpenToolbox) -> list[ToolResult]:
        asked: list[tuple[str, dict[str, Any], float]] = [
            ("fail", {"how": "raise"}, 60),
            ("fail", {"how": "exit"}, 60),
            ("fail", {}, 60),
            ("fail", {"how": "hang"}, 0.2),
            ("echo", {"text": "ä" * 20_000}, 60),
        ]
        return [await tools.call(name, given, seconds=seconds) for name, given, seconds in asked]

    raised, left, wrong, hung, long = with_tools(SPECS, use)
    assert raised == ToolResult("ValueError: oh no (tools.py:29, in fail)", error=True, size=40)
    assert left.content.startswith("SystemExit: 3")
    assert wrong.content == "arguments lacks 'how'"
    assert hung == ToolResult("the call took more than 0.2 s and was given up", error=True)
    assert (len(long.content), long.size, long.error) == (5000, 40_000, False)


def test_a_process_that_ends_loses_the_rollout_and_all_its_calls(with_tools: Any) -> None:
    async def use(tools: OpenToolbox) -> list[BaseException | ToolResult]:
        calls = [tools.call("fail", {"how": how}, seconds=60) for how in ("hang", "crash")]
        found = list(await asyncio.gather(*calls, return_exceptions=True))
        return [*found, *await asyncio.gather(tools.call("who", {}, seconds=60), return_exceptions=True)]

    for error in with_tools(SPECS, use):
        assert isinstance(error, ToolCrashedError)
        assert str(error) == "the process of tools.py ended (status 7: why it ended)"


def test_a_rollout_that_is_dropped_ends_its_process(with_tools: Any) -> None:
    pids = []

    async def use(tools: OpenToolbox) -> None:
        pids.append(json.loads((await tools.call("who", {}, seconds=60)).content)["pid"])
        calling = asyncio.create_task(tools.call("fail", {"how": "hang"}, seconds=60))
        await asyncio.sleep(0)
        calling.cancel()
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        with_tools(SPECS, use)
    assert not Path("/proc", str(pids[0])).exists()


def test_a_file_that_cannot_be_used_is_refused_before_the_first_request() -> None:
    with pytest.raises(ConfigError, match=r"tools\[0\]: tools\.py does not load: SyntaxError"):
        Toolbox([{"type": "file", "path": "tools.py", "source": "def f("}], sandbox=None, where="a")
    box = Toolbox([{"type": "file", "path": "tools.py", "source": "import nothing"}], sandbox=None, where="a")
    with pytest.raises(ConfigError, match=r"a\.tools\[0\]: tools\.py does not load: ModuleNotFoundError"):
        asyncio.run(box.schemas())
    with pytest.raises(ConfigError, match="needs a path"):
        Toolbox([{"type": "file"}], sandbox=None, where="a")
