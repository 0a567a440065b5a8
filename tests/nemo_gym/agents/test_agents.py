"""The single-turn agent, and an outsider's agent with a tool loop found by a real entry point."""

import asyncio
import sys

import pytest

from nemo_gym.agents.registry import AGENTS, agent_types, load_agent
from nemo_gym.errors import ConfigError
from nemo_gym.types import RolloutFailedError, Task

LOOP = """
from pydantic import BaseModel
from nemo_gym.types import Episode

class Options(BaseModel):
    max_turns: int = 5

class Loop:
    Options = Options
    def __init__(self, options):
        self.options = options
    async def run(self, task, policy):
        messages = list(task.row["responses_create_params"]["input"])
        for turn in range(1, self.options.max_turns + 1):
            answer = await policy.respond({"input": messages})
            calls = [item for item in answer["output"] if item["type"] == "function_call"]
            if not calls:
                break
            messages += [{"type": "function_call_output", "output": "4"} for _ in calls]
        return Episode(answer, turns=turn, tool_calls=turn - 1, fields={"trajectory": messages})
"""


class Policy:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def respond(self, params):
        self.asked.append(params)
        return self.answers.pop(0)


def said(text):
    return {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}


TASK = Task(
    0, 0, {"responses_create_params": {"input": [{"role": "user", "content": "2+2?"}], "temperature": 0}}
)


def test_the_single_turn_agent_sends_the_tasks_parameters_once():
    policy = Policy(said("4"))
    episode = asyncio.run(load_agent({"type": "single_turn"}).run(TASK, policy))
    assert policy.asked == [TASK.row["responses_create_params"]]
    assert (episode.text, episode.turns, episode.tool_calls, episode.truncated) == ("4", 1, 0, False)


@pytest.mark.parametrize("error", [{"message": "context too long"}, None, "context too long"])
def test_an_answer_that_says_failed_is_a_failed_rollout(error):
    policy = Policy({"status": "failed", "error": error, "output": []})
    with pytest.raises(RolloutFailedError, match="says failed") as raised:
        asyncio.run(load_agent({"type": "single_turn"}).run(TASK, policy))
    assert raised.value.failure_class == "agent_run_error"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"type": "single_turn", "turns": 2}, r"unknown option benchmark\.agent\.turns; known are none"),
        ({"type": "singleturn"}, r"no agent 'singleturn'.*\(did you mean 'single_turn'\?\)"),
        ({}, r"benchmark\.agent\.type: an agent needs a type"),
    ],
)
def test_a_wrong_agent_is_refused_with_its_path(spec, message):
    with pytest.raises(ConfigError, match=message):
        load_agent(spec)


def test_an_outsiders_agent_with_a_tool_loop_is_found_and_plays(tmp_path, monkeypatch):
    info = tmp_path / "loop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nemo_gym.agents]\nloop = loop_agent:Loop\n")
    (tmp_path / "loop_agent.py").write_text(LOOP)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        policy = Policy({"output": [{"type": "function_call", "name": "add"}]}, said("4"))
        assert agent_types() == sorted([*AGENTS.built_in, "loop"])
        episode = asyncio.run(load_agent({"type": "loop", "max_turns": 3}).run(TASK, policy))
    finally:
        sys.modules.pop("loop_agent", None)
    assert (episode.text, episode.turns, episode.tool_calls) == ("4", 2, 1)
    assert len(episode.fields["trajectory"]) == 2
