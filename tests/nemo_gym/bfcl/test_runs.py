"""A run of BFCL from the command to the scores of its categories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engines import bfcl_python, shared_cache
from tests.mock_server import MockServer
from tests.nemo_gym.bfcl.calling import right_calls, right_turns

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

GYM = Path(sys.executable).with_name("gym")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    bfcl_python()
    cache = shared_cache(tmp_path / "cache")
    return {**os.environ, "XDG_CACHE_HOME": cache, "XDG_DATA_HOME": str(tmp_path / "data")}


def gym(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    argv = [str(GYM), *words]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300, check=False)


def fault(said: Any) -> str:
    """An answer of the chat API, as the server is told to give it."""
    message: dict[str, Any] = {"role": "assistant", "content": said if isinstance(said, str) else None}
    if not isinstance(said, str):
        message["tool_calls"] = [
            {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": text}}
            for number, call in enumerate(said)
            for name, text in call.items()
        ]
    reason = "stop" if isinstance(said, str) else "tool_calls"
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return "json:" + json.dumps({"model": "m", "choices": [choice], "usage": usage})


def test_a_run_asks_with_tools_talks_in_a_sandbox_and_scores_each_category(
    environ: dict[str, str], tmp_path: Path
) -> None:
    wanted = "+prepare_script_args.categories=[simple_python,irrelevance,multi_turn_miss_func]"
    place = f"+benchmark.datasets.benchmark.jsonl_fpath={tmp_path}/d/b.jsonl"
    made = gym(environ, "eval", "prepare", "--benchmark", "bfcl", wanted, place)
    assert made.returncode == 0, made.stderr
    first: dict[str, dict[str, Any]] = {}
    for line in Path(made.stdout.strip()).read_text().splitlines():
        row = json.loads(line)
        first.setdefault(row["category"], row)
    simple, irrelevant, talk = first.values()
    (tmp_path / "three.jsonl").write_text("".join(json.dumps(row) + "\n" for row in first.values()))
    turns = right_turns(talk)
    script = [right_calls(simple), "Nothing fits.", *(said for turn in turns for said in turn)]
    with MockServer(models=["m"], faults=[*map(fault, script)]) as server:
        done = gym(
            environ,
            *("eval", "run", "--benchmark", "bfcl", "--input", str(tmp_path / "three.jsonl")),
            *("--model", "m", "--model-url", server.base_url, "-o", str(tmp_path / "out.jsonl"), "--json"),
            *("--concurrency", "1"),
        )
        assert done.returncode == 0, done.stderr
        bodies = server.bodies
    found = json.loads(done.stdout)
    assert found["score"]["mean"] == 1
    assert {group["group"]: group["mean"] for group in found["groups"]} == {
        "simple_python": 1,
        "irrelevance": 1,
        "multi_turn_miss_func": 1,
    }
    assert len(bodies) == len(script)
    assert bodies[0]["tools"] == simple["responses_create_params"]["tools"]
    assert bodies[0]["temperature"] == 0.001
    later = next(int(turn) for turn in talk["bfcl"]["later_tools"])
    asked = sum(map(len, turns[:later]))
    assert len(bodies[2 + asked]["tools"]) > len(bodies[2]["tools"])
    assert "I have updated some more functions" in bodies[2 + asked]["messages"][-1]["content"]
    result = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])
    assert result["bfcl_said"] == turns
    assert irrelevant["expected_answer"] == "no call"

    again = gym(
        environ,
        *("eval", "reverify", "--rollouts", str(tmp_path / "out.jsonl"), "--benchmark", "bfcl", "--json"),
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["summary"]["score"]["mean"] == 1


def test_a_category_that_is_left_out_is_refused_with_the_reason(
    environ: dict[str, str], tmp_path: Path
) -> None:
    place = f"+benchmark.datasets.benchmark.jsonl_fpath={tmp_path}/d/b.jsonl"
    words = ("eval", "prepare", "--benchmark", "bfcl", place)
    refused = gym(environ, *words, "+prepare_script_args.categories=[web_search_base]")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "web_search_base is left out: it searches the web" in refused.stderr
