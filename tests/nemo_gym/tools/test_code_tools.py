"""Tools that run code of the model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.real_programs import needs_bwrap

from nemo_gym.sandbox.protocol import Completed, SandboxProbe
from nemo_gym.sandbox.registry import load_sandbox
from nemo_gym.tools.calling import ToolResult
from nemo_gym.tools.code_tools import result_of
from nemo_gym.tools.toolbox import OpenToolbox


def completed(**more: Any) -> Completed:
    return Completed(**{"returncode": 0, "stdout": b"out\n", "stderr": b"", "seconds": 0.1, **more})


@pytest.mark.parametrize(
    ("ended", "text", "error"),
    [
        ({}, "out", False),
        ({"stdout": b""}, "", False),
        ({"stderr": b"warning\n"}, "out\n[standard error]\nwarning", False),
        ({"returncode": 3}, "out\n[exit status 3]", True),
        ({"returncode": 137, "limit": "memory"}, "out\n[ended by the limit of memory]", True),
        ({"truncated": True}, "out\n[more was written than is kept]", False),
    ],
)
def test_output_errors_and_end_are_one_text(ended: dict[str, Any], text: str, error: bool) -> None:
    assert result_of(completed(**ended)) == ToolResult(text, error)


@pytest.mark.slow
@pytest.mark.services
@needs_bwrap
def test_code_of_the_model_runs_in_a_sandbox_and_its_files_are_kept(with_tools: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("secret")
    found: SandboxProbe = asyncio.run(load_sandbox().probe())
    assert found.works, found.reason

    async def use(tools: OpenToolbox) -> list[ToolResult]:
        asked = [
            ("bash", {"command": f"echo 42 > answer; cat {tmp_path}/mine; echo done"}),
            ("python", {"code": "print(int(open('answer').read()) + 1)"}),
            ("python", {"code": "print(input())"}),
            ("python", {"cod": "1"}),
            ("bash", {"command": "x" * 200_000}),
            ("mine", {"n": 4}),
        ]
        return [await tools.call(name, arguments, seconds=60) for name, arguments in asked]

    source = 'def mine(n: int) -> int:\n    """Add."""\n    return n + int(open("answer").read())\n'
    specs: list[dict[str, Any]] = [
        {"type": "python"},
        {"type": "bash"},
        {"type": "file", "path": "tools.py", "source": source},
    ]
    bash, python, reading, wrong, long, mine = with_tools(specs, use)
    assert bash.content.startswith("done")
    assert "No such file" in bash.content
    assert python == ToolResult("43")
    assert "EOFError" in reading.content
    assert wrong == ToolResult("python takes one argument, the text 'code'", error=True)
    assert "a command may have" in long.content
    assert mine.content == "46"

    async def apart(tools: OpenToolbox) -> list[ToolResult]:
        asked = ["echo 1 > a; ls", "ls"]
        return [await tools.call("bash", {"command": command}, seconds=60) for command in asked]

    first, second = with_tools([{"type": "bash", "stateless": True}], apart)
    assert (first.content, second.content) == ("a", "")
