"""One rollout with tools: order, limits, errors, and going on from stored turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from nemo_gym.agents.tool_loop import LoopLimits, ToolLoop
from nemo_gym.tools.calling import ToolCrashedError, ToolResult, ToolSchema
from nemo_gym.tools.toolbox import OpenToolbox
from nemo_gym.types import Episode, RolloutFailedError, Row, Task

SCHEMA = ToolSchema("add", "Add.", {"type": "object", "properties": {}})
LIMITS: dict[str, Any] = {
    "turns": 5,
    "total_tokens": None,
    "seconds": None,
    "output_bytes": 100,
    "call_seconds": 9.0,
    "parallel_calls": 8,
}


class Policy:
    def __init__(self, *answers: list[Row], usage: Row | None = None, **more: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, Any]] = []
        self.usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7} if usage is None else usage
        self.more = more

    async def respond(self, params: Mapping[str, Any]) -> Row:
        self.asked.append(json.loads(json.dumps(params)))
        return {"output": self.answers.pop(0), "status": "completed", "usage": self.usage} | self.more

    async def score(self, *_: Any) -> Any:
        raise AssertionError("an agent with tools asks for no likelihoods")


class Tools:
    """Tools whose results are made by a function, each after so many turns of the event loop."""

    def __init__(self, *names: str, waits: Mapping[str, int] | None = None) -> None:
        self.names = names or ("add",)
        self.waits = waits or {}
        self.made: list[str] = []
        self.ended: list[str] = []
        self.seconds: list[float] = []

    def has(self, name: str) -> bool:
        return name in self.names

    async def ready(self, names: Sequence[str]) -> None:
        assert all(map(self.has, names))

    async def call(self, name: str, arguments: Mapping[str, Any], *, seconds: float) -> ToolResult:
        self.made.append(name)
        self.seconds.append(seconds)
        try:
            for _ in range(self.waits.get(name, 0)):
                await asyncio.sleep(0)
        finally:
            self.ended.append(name)
        if name == "crash":
            raise ToolCrashedError("gone")
        return ToolResult(f"{name} gave {json.dumps(arguments)}", error=name == "bad")


class Log:
    def __init__(self, *entries: Row) -> None:
        self.entries = list(entries)

    def stored(self) -> list[Row]:
        return list(self.entries)

    async def add(self, entry: Row) -> None:
        self.entries.append(json.loads(json.dumps(entry)))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def call(name: str = "add", arguments: Any = "{}", call_id: str | None = None) -> Row:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def said(text: str) -> Row:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def play(
    policy: Policy,
    tools: Tools | None = None,
    *,
    log: Log | None = None,
    row_tools: list[Row] | None = None,
    clock: Clock | None = None,
    later: Sequence[str] = (),
    **limits: Any,
) -> Episode:
    params: Row = {"input": [{"role": "user", "content": "?"}], "temperature": 0.5}
    if row_tools is not None:
        params["tools"] = row_tools
    task = Task(0, 0, {"responses_create_params": params}, log)
    box = cast("OpenToolbox", tools or Tools())
    bounds = LoopLimits(**{**LIMITS, **limits})
    loop = ToolLoop(task, policy, box, [SCHEMA], bounds, said=later, monotonic=clock or Clock())
    return asyncio.run(loop.play())


def test_results_come_in_the_order_of_the_calls_which_run_side_by_side() -> None:
    tools = Tools("slow", "quick", waits={"slow": 5})
    policy = Policy([call("slow", call_id="a"), call("quick", call_id="b")], [said("done")])
    episode = play(policy, tools)
    assert tools.ended == ["quick", "slow"]
    given = policy.asked[1]["input"][-2:]
    assert [item["call_id"] for item in given] == ["a", "b"]
    assert [item["output"] for item in given] == ["slow gave {}", "quick gave {}"]
    assert (episode.text, episode.turns, episode.tool_calls, episode.end) == ("done", 2, 2, "completed")
    assert policy.asked[1]["temperature"] == 0.5
    assert [tool["name"] for tool in policy.asked[0]["tools"]] == ["add"]


def test_no_more_calls_run_at_once_than_may() -> None:
    tools = Tools("slow", "quick", waits={"slow": 5})
    play(Policy([call("slow"), call("quick")], [said("done")]), tools, parallel_calls=1)
    assert tools.ended == ["slow", "quick"]


def test_the_whole_trajectory_is_in_the_row_and_tokens_are_those_of_all_turns() -> None:
    policy = Policy([said("I add."), call(arguments='{"a": 1}')], [call("bad"), call("none")], [said("2")])
    episode = play(policy, Tools("add", "bad"), output_bytes=20)
    first, second, last = episode.fields["trajectory"]
    assert first["output"][0] == said("I add.")
    assert first["usage"] == policy.usage
    [made] = first["calls"]
    assert (made["name"], made["arguments"], made["seconds"]) == ("add", '{"a": 1}', 0.0)
    assert made["result"] == 'add gave {"a": 1}'
    assert "error" not in made
    assert second["calls"][0]["error"]
    assert second["calls"][1]["result"].startswith("there is no tool 'no")
    assert second["calls"][1]["cut_from_bytes"] == len("there is no tool 'none'; known are add")
    assert (last["output"], last["calls"]) == ([said("2")], [])
    assert episode.response["usage"] == {"input_tokens": 15, "output_tokens": 6, "total_tokens": 21}
    assert (episode.fields["tool_errors"], episode.fields["tool_results_cut"]) == (2, 1)


@pytest.mark.parametrize(
    ("limit", "end"),
    [({"turns": 2}, "turn_limit"), ({"total_tokens": 14}, "token_limit"), ({"seconds": 7}, "time_limit")],
)
def test_a_limit_ends_the_rollout_and_says_which(limit: dict[str, Any], end: str) -> None:
    clock = Clock()

    class Slow(Policy):
        async def respond(self, params: Mapping[str, Any]) -> Row:
            clock.now += 4
            return await super().respond(params)

    policy = Slow(*[[call()] for _ in range(9)])
    episode = play(policy, clock=clock, **limit)
    assert (episode.end, episode.turns, episode.tool_calls, len(policy.asked)) == (end, 2, 1, 2)


def test_nothing_is_asked_after_the_time_that_a_tool_took() -> None:
    clock = Clock()

    class Slow(Tools):
        async def call(self, name: str, arguments: Mapping[str, Any], *, seconds: float) -> ToolResult:
            clock.now += seconds
            return await super().call(name, arguments, seconds=seconds)

    policy = Policy([call()], [said("done")])
    episode = play(policy, Slow(), clock=clock, seconds=3)
    assert (episode.end, episode.turns, episode.tool_calls, len(policy.asked)) == ("time_limit", 1, 1, 1)


def test_a_call_gets_no_more_time_than_is_left() -> None:
    tools = Tools()
    play(Policy([call()], [said("done")]), tools, seconds=3.0)
    assert tools.seconds == [3.0]


def test_tokens_that_nobody_counts_cannot_be_bounded() -> None:
    with pytest.raises(RolloutFailedError, match="does not say how many tokens") as raised:
        play(Policy([call()], usage=cast("Row", ())), total_tokens=5)
    assert raised.value.terminal


def test_a_call_of_a_tool_that_only_the_row_has_is_the_answer() -> None:
    weather = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    policy = Policy([call("add")], [call("weather"), call("add")])
    episode = play(policy, row_tools=[weather])
    assert (episode.end, episode.turns, episode.tool_calls) == ("tool_calls", 2, 1)
    assert [tool.get("name") for tool in policy.asked[0]["tools"]] == ["add", None]


def test_the_rows_description_of_a_tool_goes_before_its_own() -> None:
    mine = {"type": "function", "name": "add", "description": "Mine.", "parameters": {}}
    policy = Policy([call("add")], [said("done")])
    assert play(policy, row_tools=[mine]).tool_calls == 1
    assert policy.asked[0]["tools"] == [mine]


def test_an_answer_that_was_cut_is_not_acted_on() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    tools = Tools()
    episode = play(Policy([call(arguments='{"a')], **cut), tools)
    assert (episode.end, tools.made) == ("max_output_tokens", [])


def test_an_answer_that_says_failed_is_a_failed_rollout() -> None:
    with pytest.raises(RolloutFailedError, match="says failed"):
        play(Policy([], status="failed"))


def test_a_tool_that_loses_its_process_fails_the_rollout_and_ends_the_other_calls() -> None:
    tools = Tools("crash", "slow", waits={"slow": 100_000})
    with pytest.raises(ToolCrashedError) as raised:
        play(Policy([call("slow"), call("crash")]), tools)
    assert (raised.value.failure_class, raised.value.terminal) == ("tool_crashed", False)
    assert sorted(tools.ended) == ["crash", "slow"]


def test_turns_are_stored_before_anything_follows_them_and_are_not_asked_again() -> None:
    log = Log()
    policy = Policy([call(arguments='{"a": 1}')], [call()], [said("done")])
    whole = play(policy, log=log)
    kinds = [next(iter(entry)) for entry in log.entries]
    assert kinds == ["response", "results", "response", "results", "response"]
    for known in range(len(log.entries) + 1):
        again = Policy(*[entry["response"]["output"] for entry in log.entries[known:] if "response" in entry])
        tools = Tools()
        resumed = play(again, tools, log=Log(*log.entries[:known]))
        assert resumed.fields["trajectory"] == whole.fields["trajectory"]
        assert resumed.response == whole.response
        assert len(again.asked) == sum("response" in entry for entry in log.entries[known:])
        assert len(tools.made) == sum("results" in entry for entry in log.entries[known:])
        assert resumed.fields.get("turns_resumed", 0) == sum("response" in e for e in log.entries[:known])
        if again.asked:
            assert again.asked[-1] == policy.asked[-1]


def test_the_time_of_stored_turns_counts() -> None:
    stored = Log({"response": {"output": [call()], "usage": None}, "seconds": 8.0})
    assert play(Policy(), log=stored, seconds=7).end == "time_limit"


def test_what_the_user_says_later_follows_an_answer_without_calls() -> None:
    policy = Policy([call(call_id="a")], [said("6")], [call(call_id="b")], [said("11")])
    episode = play(policy, later=["And a melon?"])
    assert policy.asked[2]["input"][-2:][1] == {"role": "user", "content": "And a melon?"}
    assert (episode.text, episode.turns, episode.tool_calls, episode.end) == ("11", 4, 2, "completed")
    assert [turn.get("then_said") for turn in episode.fields["trajectory"]] == [
        None,
        "And a melon?",
        None,
        None,
    ]
    assert episode.fields["conversation"] == [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "6"},
        {"role": "user", "content": "And a melon?"},
        {"role": "assistant", "content": "11"},
    ]


def test_a_limit_ends_a_conversation_before_the_user_goes_on() -> None:
    policy = Policy([said("6")], [said("7")])
    episode = play(policy, later=["And?", "Then?"], turns=2)
    assert (episode.end, episode.turns, len(policy.asked)) == ("turn_limit", 2, 2)
    assert episode.fields["conversation"][-1] == {"role": "assistant", "content": "7"}


def test_an_answer_that_did_not_end_well_ends_the_conversation() -> None:
    cut = Policy([said("6")], status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    episode = play(cut, later=["And?"])
    assert (episode.end, episode.turns) == ("max_output_tokens", 1)


def test_a_conversation_goes_on_behind_its_stored_turns() -> None:
    log = Log()
    play(Policy([call(call_id="a")], [said("6")], [said("7")]), log=log, later=["And?"])
    again = Policy([said("8")])
    resumed = play(again, log=Log(*log.entries[:3]), later=["And?"])
    assert (resumed.text, resumed.turns, len(again.asked)) == ("8", 3, 1)
    assert again.asked[0]["input"][-1] == {"role": "user", "content": "And?"}
