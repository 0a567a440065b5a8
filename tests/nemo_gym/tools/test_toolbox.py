"""All tools of an agent: found, described once, refused with their place, called."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.agents.registry import load_agent
from nemo_gym.errors import ConfigError
from nemo_gym.sandbox.protocol import SandboxError
from nemo_gym.tools.calling import ToolCrashedError, ToolResult
from nemo_gym.tools.toolbox import OpenToolbox, Toolbox

TOYS = '''
import contextlib
from pydantic import BaseModel
from nemo_gym.sandbox.protocol import SandboxError
from nemo_gym.tools.calling import ToolCrashedError, ToolResult, ToolSchema

class Options(BaseModel):
    name: str = "toy"
    stateless: bool = False

class Toys:
    """A tool of another package."""

    Options = Options
    opened = 0

    def __init__(self, options):
        self.options = options
        self.stateless = options.stateless

    async def schemas(self, place):
        if self.options.name == "refused":
            raise ValueError("why not")
        return [ToolSchema(self.options.name, "Play.", {"type": "object", "properties": {}})]

    @contextlib.asynccontextmanager
    async def open(self, place):
        Toys.opened += 1
        yield self

    async def call(self, name, arguments, *, seconds):
        how = arguments.get("how")
        if how == "raise":
            raise ValueError("oh")
        if how == "sandbox":
            raise SandboxError("it broke.")
        if how == "crash":
            raise ToolCrashedError("gone")
        return "no result" if how == "wrong" else ToolResult(f"{name} {arguments}")
'''


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    info = tmp_path / "toys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nemo_gym.tools]\ntoy = toy_tools:Toys\n")
    (tmp_path / "toy_tools.py").write_text(TOYS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("toy_tools", None)


def test_tools_of_another_package_are_found_and_called(toys: None, with_tools: Any) -> None:
    async def use(tools: OpenToolbox) -> list[Any]:
        hows = (None, "raise", "wrong", "sandbox", "crash")
        calls = [tools.call("toy", {} if how is None else {"how": how}, seconds=60) for how in hows]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    right, raised, wrong, broken, crashed = with_tools([{"type": "toy"}], use)
    assert right == ToolResult("toy {}")
    assert raised == ToolResult("ValueError: oh", error=True)
    assert "must give a ToolResult" in wrong.content
    assert (type(broken), str(broken)) == (
        ToolCrashedError,
        "the toolset 'toy' of the package toys: it broke",
    )
    assert isinstance(crashed, ToolCrashedError)
    assert issubclass(SandboxError, Exception)


def test_nothing_is_opened_for_a_rollout_that_calls_nothing(toys: None) -> None:
    async def unused() -> int:
        box = Toolbox([{"type": "toy"}], sandbox=None, where="a")
        async with box.open({}, output_bytes=10) as tools:
            assert tools.has("toy")
        import toy_tools  # type: ignore[import-not-found]

        return int(toy_tools.Toys.opened)

    assert asyncio.run(unused()) == 0


def test_schemas_are_part_of_what_answers_depend_on(toys: None) -> None:
    def facts(*names: str) -> dict[str, str]:
        specs = [{"type": "toy", "name": name} for name in names]
        return asyncio.run(Toolbox(specs, sandbox=None, where="benchmark.agent").facts())

    both = facts("one", "two")
    assert list(both) == ["tools[0]", "tools[1]"]
    assert both["tools[0]"].startswith("toy (one) sha256:")
    assert facts("one") == {"tools[0]": both["tools[0]"]}
    assert facts("other")["tools[0]"] != both["tools[0]"]


@pytest.mark.parametrize(
    ("specs", "problem"),
    [
        ([{"type": "toy"}, {"type": "toy"}], r"a\.tools\[1\]: the tool 'toy' is one of a\.tools\[0\], too"),
        ([{"type": "toy", "name": "a b"}], r"a\.tools\[0\]: .* names a tool 'a b'"),
        ([{"type": "toy", "name": "refused"}], r"a\.tools\[0\]: .*ValueError: why not"),
        ([{"type": "tyo"}], r"no toolset 'tyo' \(did you mean 'toy'\?\)"),
        ([{"type": "toy", "nam": 1}], r"unknown option a\.tools\[0\]\.nam"),
        ([{}], r"a\.tools\[0\]\.type: a toolset needs a type; known are bash, file, mcp, python, toy"),
        ([{"type": "mcp", "command": []}], r"a\.tools\[0\]\.command"),
    ],
)
def test_tools_that_cannot_be_had_are_refused_with_their_place(
    toys: None, specs: list[dict[str, Any]], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        asyncio.run(Toolbox(specs, sandbox=None, where="a").schemas())


def test_turns_are_kept_only_where_every_toolset_says_that_it_has_no_state(toys: None) -> None:
    def agent(*stateless: bool) -> bool:
        tools = [{"type": "toy", "name": f"t{n}", "stateless": says} for n, says in enumerate(stateless)]
        return bool(
            vars(load_agent({"type": "tools", "checkpoint_turns": True, "tools": tools}))["keeps_turns"]
        )

    assert agent(True, True)
    problem = (
        r"benchmark\.agent\.checkpoint_turns: .* benchmark\.agent\.tools\[1\] must say 'stateless: true'"
    )
    with pytest.raises(ConfigError, match=problem):
        agent(True, False)
