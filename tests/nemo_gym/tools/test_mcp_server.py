"""Tools of a real MCP server over its standard input and output."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.tools import mcp_server
from nemo_gym.tools.calling import ToolCrashedError, ToolResult
from nemo_gym.tools.toolbox import OpenToolbox, Toolbox

pytestmark = pytest.mark.slow

SERVER = '''
import os, sys
from mcp.server.mcpserver import MCPServer

app = MCPServer("toy")

@app.tool()
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b

@app.tool()
def end() -> str:
    """End."""
    print("why it ended", file=sys.stderr)
    os._exit(4)

app.run(transport="stdio")
'''

PLAIN = """
import json, sys

calls = 0

def answer(method, params):
    global calls
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "plain", "version": "1"}}
    if method == "tools/list":
        name = "second" if params.get("cursor") else "first"
        tool = {"name": name, "inputSchema": {"type": "object"}}
        return {"tools": [tool], **({"nextCursor": "2"} if name == "first" else {})}
    calls += 1
    how = params["arguments"].get("how")
    if how == "parts":
        link = {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}
        return {"content": [{"type": "text", "text": str(calls)}, link,
                            {"type": "image", "data": "", "mimeType": "image/png"}]}
    if how == "fail":
        return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
    if how == "half":
        return {"content": [{"type": "text", "text": "a\\ud83d"}]}
    if how == "whole":
        return {"content": [{"type": "text", "text": "\\U0001f600"}]}
    if how == "long":
        return {"content": [], "structuredContent": {"calls": 10**30}}
    return {"content": [], "structuredContent": {"calls": calls}}

print("not a message", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    params = asked.get("params") or {}
    how = params.get("arguments", {}).get("how")
    if "id" not in asked or how == "hang":
        continue
    reply = {"jsonrpc": "2.0", "id": asked["id"]}
    if how == "refuse":
        reply["error"] = {"code": -32602, "message": "no such thing"}
    else:
        reply["result"] = answer(asked["method"], params)
    print(json.dumps(reply), flush=True)
"""


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, Any]:
    """A server of a few lines, which starts at once."""
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    return {"type": "mcp", "command": [sys.executable, str(path)]}


def test_a_server_of_the_package_offers_its_tools_and_answers(tmp_path: Path, with_tools: Any) -> None:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    found: list[ToolResult] = []

    async def use(tools: OpenToolbox) -> None:
        asked: list[tuple[str, dict[str, Any]]] = [("multiply", {"a": 3, "b": 4}), ("multiply", {"a": "x"})]
        calls = [tools.call(name, given, seconds=60) for name, given in asked]
        found.extend(await asyncio.gather(*calls))
        await tools.call("end", {}, seconds=60)

    with pytest.raises(ToolCrashedError, match=r"server .*server\.py ended \(status 4: why it ended\)"):
        with_tools([{"type": "mcp", "command": [sys.executable, str(path)]}], use)
    assert found[0] == ToolResult("12")
    assert found[1].error
    assert "b" in found[1].content


def test_results_errors_and_pages_of_a_server(plain: dict[str, Any], with_tools: Any) -> None:
    async def use(tools: OpenToolbox) -> list[ToolResult]:
        assert tools.has("second")
        hows = ("parts", "fail", "refuse", "structured")
        found = [await tools.call("first", {"how": how}, seconds=60) for how in hows]
        return [*found, await tools.call("first", {"how": "hang"}, seconds=0.3)]

    parts, failed, refused, structured, hung = with_tools([plain], use)
    assert parts == ToolResult("1\ninside\n[image]")
    assert failed == ToolResult("it failed", error=True)
    assert refused == ToolResult("no such thing", error=True)
    assert structured == ToolResult('{"calls": 3}')
    assert hung == ToolResult("the call took more than 0.3 s and was given up", error=True)


def test_halves_of_characters_and_long_numbers_lose_no_answer(plain: dict[str, Any], with_tools: Any) -> None:
    async def use(tools: OpenToolbox) -> list[str]:
        hows = ("half", "whole", "long")
        return [(await tools.call("first", {"how": how}, seconds=60)).content for how in hows]

    assert with_tools([plain], use) == ["a?", "\U0001f600", f'{{"calls": {10**30}}}']


def test_a_server_beside_the_config_is_there_in_a_sandbox(plain: dict[str, Any], with_tools: Any) -> None:
    async def use(tools: OpenToolbox) -> ToolResult:
        return await tools.call("first", {"how": "structured"}, seconds=60)

    spec = {**plain, "command": ["python3", *plain["command"][1:]]}
    sandbox = {"type": "bubblewrap"}
    assert with_tools([spec], use, sandbox=sandbox) == ToolResult('{"calls": 1}')


def test_only_the_tools_that_are_named_are_offered(plain: dict[str, Any]) -> None:
    box = Toolbox([{**plain, "only": ["second"]}], sandbox=None, where="a")
    assert [schema.name for schema in asyncio.run(box.schemas())] == ["second"]
    box = Toolbox([{**plain, "only": ["third"]}], sandbox=None, where="a")
    with pytest.raises(ConfigError, match="offers no tool 'third'; it offers first, second"):
        asyncio.run(box.schemas())


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["/no/such/program"], "the MCP server /no/such/program cannot be started"),
        ([sys.executable, "-c", "print('hello')"], r"does not answer as one and ended \(status 0\)"),
        (
            [sys.executable, "-c", "raise SystemExit('TOY_KEY is not set')"],
            r"does not answer as one and ended \(status 1: TOY_KEY is not set\)",
        ),
    ],
)
def test_a_program_that_is_no_server_is_refused(command: list[str], problem: str) -> None:
    box = Toolbox([{"type": "mcp", "command": command}], sandbox=None, where="benchmark.agent")
    with pytest.raises(ConfigError, match=rf"benchmark\.agent\.tools\[0\]: .*{problem}"):
        asyncio.run(box.schemas())


def test_without_its_package_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server.importlib.util, "find_spec", lambda name: None)
    assert importlib.util.find_spec("mcp") is None
    with pytest.raises(ConfigError, match=r"need the package mcp: pip install 'nemo-baton\[mcp\]'"):
        Toolbox([{"type": "mcp", "command": ["x"]}], sandbox=None, where="a")
