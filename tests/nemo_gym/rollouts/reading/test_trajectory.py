"""Turns with tools as steps to read."""

from __future__ import annotations

from tests.result_rows import message

from nemo_gym.rollouts.reading.trajectory import turn_steps, turns_of

THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}


def call(call_id: str) -> dict[str, object]:
    return {"type": "function_call", "name": "add", "arguments": '{"a": 1}', "call_id": call_id}


def test_each_call_is_followed_by_what_it_gave() -> None:
    results = [
        {"call_id": "2", "name": "add", "result": "oh", "seconds": 1.25, "error": True},
        {"call_id": "1", "name": "add", "result": "1", "seconds": 0.0, "cut_from_bytes": 5000},
    ]
    turns = [
        {"output": [THOUGHT, message("I add."), call("1"), call("2")], "calls": results},
        {"output": [THOUGHT, message("Done."), call("3")], "calls": []},
    ]
    steps = [(step["kind"], step["content"]) for step in turn_steps(turns_of({"trajectory": turns}))]
    assert steps == [
        ("turn 1: thoughts", "hm"),
        ("turn 1: text", "I add."),
        ("turn 1: call of add", '{"a": 1}'),
        ("turn 1: result of add (0.0 s, cut from 5,000 bytes)", "1"),
        ("turn 1: call of add", '{"a": 1}'),
        ("turn 1: error of add (1.2 s)", "oh"),
        ("turn 2: call of add, not made", '{"a": 1}'),
    ]


def test_a_trajectory_of_another_agent_is_left_alone() -> None:
    for found in (None, "text", [1], [{"output": 1}], [{"role": "user"}]):
        assert turns_of({"trajectory": found}) == []


def test_what_the_user_says_later_is_a_step() -> None:
    turns = [{"output": [], "then_said": "And a melon?"}, {"output": []}]
    assert turn_steps(turns) == [{"kind": "user", "content": "And a melon?"}]
