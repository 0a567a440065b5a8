"""Whole runs of the agent with tools: recorded, shown, counted, resumed, and refused when a tool changed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.mock_server import MockServer
from tests.result_rows import benchmark_config

from nemo_gym.cli.program import gym
from nemo_gym.errors import ConfigError, ResumeRefusedError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.run_config.schema import load_run_config
from nemo_gym.rollouts.scores.summary import load_summary

pytestmark = pytest.mark.services

TOOLS = '''
import time

def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

def wait(path: str) -> str:
    """Wait until there is a file."""
    import os
    while not os.path.exists(path):
        time.sleep(0.01)
    return "done"

def crash(path: str) -> str:
    """Crash the first time."""
    import os
    if os.path.exists(path):
        return "survived"
    open(path, "w").close()
    os._exit(3)
'''
ADD = [["add", {"a": 3, "b": 4}]]


def write(folder: Path, *, tools: str = TOOLS, stateless: bool = False, **agent: Any) -> Path:
    path = benchmark_config(folder)
    described = [{"type": "file", "path": "tools.py", "stateless": stateless}]
    path.write_text(
        path.read_text() + "  agent: " + json.dumps({"type": "tools", "tools": described, **agent})
    )
    (folder / "tools.py").write_text(tools)
    (folder / "data.jsonl").write_text(
        "".join(json.dumps({"question": f"Task {n}?", "expected_answer": "7"}) + "\n" for n in range(3))
    )
    return path


def command(path: Path, server: MockServer, out: Path, *more: str) -> list[str]:
    given = ["eval", "run", "-c", str(path), "-m", "mock", "--model-url", server.base_url, "--json"]
    return [*given, "-o", str(out / "rollouts.jsonl"), *more]


def run(path: Path, server: MockServer, out: Path, *more: str) -> tuple[Result, Any]:
    ran = CliRunner().invoke(gym, command(path, server, out, *more))
    return ran, json.loads(ran.stdout) if ran.stdout else None


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "rollouts.jsonl").read_text().splitlines()]


def test_a_run_with_tools_is_graded_recorded_and_can_be_read(tmp_path: Path) -> None:
    path, out = write(tmp_path / "b"), tmp_path / "out"
    with MockServer(script=[ADD, [["add", {"a": "x"}]], "It is 7."]) as server:
        ran, found = run(path, server, out)
        sent = server.bodies[0]["tools"]
    assert ran.exit_code == 0, ran.output
    assert found["score"]["mean"] == 1.0
    assert [tool["function"]["name"] for tool in sent] == ["add", "wait", "crash"]
    assert found["tokens"]["input"] == 3 * 3 * 9
    assert found["tools"] == {"turns": 9, "calls": 6, "errors": 3, "cut": 0}
    summary = load_summary(RolloutPaths(out / "rollouts.jsonl"))
    assert summary is not None
    assert dict(summary.lines())["tools"] == "6 calls in 9 turns, 3 errors"
    row = rows(out)[0]
    first, second, _ = row["trajectory"]
    assert first["calls"][0] | {"seconds": 0} == {
        "call_id": "c0",
        "name": "add",
        "arguments": '{"a": 3, "b": 4}',
        "result": "7",
        "seconds": 0,
    }
    assert second["calls"][0]["error"]
    manifest = (out / "rollouts_manifest.json").read_text()
    assert "file (add, wait, crash) sha256:" in manifest
    assert "def add" not in manifest
    shown = CliRunner().invoke(gym, ["job", "show", str(out), "--task", "0"]).output
    assert "turn 1: call of add" in shown
    assert "turn 2: error of add (0.0 s)\n    arguments lacks 'b'" in shown
    assert "3 turns" in shown


def test_limits_are_said_in_rows_and_summary(tmp_path: Path) -> None:
    path, out = write(tmp_path / "b", max_turns=2), tmp_path / "out"
    with MockServer(script=[ADD]) as server:
        ran, found = run(path, server, out)
        assert server.requests == 6
    assert ran.exit_code == 0, ran.output
    assert found["ends"] == {"turn_limit": 3}
    assert rows(out)[0]["_ng_end"] == "turn_limit"
    assert "an answer did not end well (turn_limit)" in ran.stderr
    assert "turn 2: call of add, not made" in CliRunner().invoke(gym, ["job", "show", str(out)]).output


def test_a_crash_of_a_tool_is_a_failure_of_its_class_and_is_tried_again(tmp_path: Path) -> None:
    path, out = write(tmp_path / "b"), tmp_path / "out"
    with MockServer(script=[[["crash", {"path": str(tmp_path / "crashed")}]], "7"]) as server:
        ran, found = run(path, server, out, "--limit", "1")
    assert ran.exit_code == 0, ran.output
    assert found["failure_classes"] == {"tool_crashed": 1}
    assert found["score"]["mean"] == 1.0
    assert "the process of tools.py ended (status 3)" in ran.stderr


def test_a_tool_that_changed_refuses_to_resume(tmp_path: Path) -> None:
    path, out = write(tmp_path / "b"), tmp_path / "out"
    with MockServer(script=["7"]) as server:
        run(path, server, out, "--limit", "1")
        write(tmp_path / "b", tools=TOOLS.replace("Add two", "Sum two"))
        ran, _ = run(path, server, out, "--resume")
        assert server.requests == 1
    assert isinstance(ran.exception, ResumeRefusedError)
    assert "benchmark.agent" in str(ran.exception)
    assert "agent_facts.tools[0]" in str(ran.exception)


def test_a_preview_shows_the_tools_and_a_broken_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    ran = CliRunner().invoke(gym, ["eval", "preview", "-c", str(path), "--tasks", "1"])
    assert ran.exit_code == 0, ran.output
    assert "Add two numbers." in ran.stdout
    write(tmp_path / "b", tools="def f(a): ...")
    with MockServer() as server:
        ran, _ = run(path, server, tmp_path / "out")
        assert server.requests == 0
    assert isinstance(ran.exception, ConfigError)
    assert "benchmark.agent.tools[0]: tools.py: f has no docstring" in str(ran.exception)
    (tmp_path / "b" / "tools.py").unlink()
    ran = CliRunner().invoke(gym, ["eval", "preview", "-c", str(path)])
    assert "benchmark.agent.tools: there is no file" in str(ran.exception)


def test_tools_go_where_the_config_goes_and_need_an_api_that_has_them(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    described = path.read_text().replace(
        '"path": "tools.py"',
        '"path": "tools.py"}, {"type": "mcp", "command": ["python3", "./server.py", "x"]',
    )
    path.write_text(described.replace(', "stateless": false', ""))
    given = ["-m", "m", "--model-url", "http://127.0.0.1:9/v1"]
    loaded = load_run_config([str(path)], None, [], search_dirs=[], cwd=tmp_path, user_env=False).config
    file, mcp = loaded.to_plain()["benchmark"]["agent"]["tools"]
    assert (file["path"], file["source"]) == ("tools.py", TOOLS)
    assert mcp["command"] == ["python3", str(tmp_path / "b" / "server.py"), "x"]
    write(tmp_path / "b")
    ran = CliRunner().invoke(
        gym,
        ["eval", "run", "-c", str(path), *given, "policy_api=completions", "-o", str(tmp_path / "o.jsonl")],
    )
    assert "the completions API has no tools" in str(ran.exception)


def test_a_killed_rollout_goes_on_from_its_last_turn_and_asks_nothing_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "b", stateless=True, checkpoint_turns=True)
    out, gate = tmp_path / "out", tmp_path / "gate"
    turns = out / "rollouts_turns.jsonl"
    with MockServer(script=[ADD, [["wait", {"path": str(gate)}]], "It is 7."]) as server:
        argv = [str(Path(sys.executable).with_name("gym")), *command(path, server, out)]
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 120
            while not turns.exists() or turns.read_bytes().count(b"\n") < 9:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        gate.touch()
        ran, found = run(path, server, out, "--resume")
        assert server.requests == 9
    assert ran.exit_code == 0, ran.output
    assert found["score"]["mean"] == 1.0
    recorded = rows(out)
    assert [row["turns_resumed"] for row in recorded] == [2, 2, 2]
    assert [len(row["trajectory"]) for row in recorded] == [3, 3, 3]
    assert not turns.exists()
