"""What rows say about what is learned is done, or refused by file and line; nothing is learned twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_engines import spec
from nemo_engines.data import rows
from nemo_engines.errors import TrainingDataError
from nemo_engines.rewards import Rewards

ASK = {"role": "user", "content": "2 + 2?"}
GOOD = {"role": "assistant", "content": "4"}
BAD = {"role": "assistant", "content": "5"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 4}'}}


def read(tmp_path: Path, row: dict[str, Any], **given: Any) -> dict[str, Any]:
    """The second row of a file as a spec has it made."""
    file = tmp_path / "data.jsonl"
    plain = {
        "text": "a",
        "messages": [ASK, GOOD],
        "prompt": "a",
        "completion": "b",
        "chosen": "c",
        "rejected": "d",
    }
    first = {name: value for name, value in plain.items() if name in row or given.get("method") == "dpo"}
    if any(isinstance(row.get(name), list) for name in ("prompt", "completion", "chosen", "chosen_response")):
        first = row
    file.write_text(json.dumps(first) + "\n" + json.dumps(row) + "\n")
    base = {"engine": "trl", "method": "sft", "model": "m", "dataset": str(file), "output": "o"}
    return rows.read_for(spec.parse_spec({**base, **given}), file, "training").rows[1]


@pytest.mark.parametrize("key", ["weight", "train", "loss"])
@pytest.mark.parametrize("no", [0, False, 0.0])
def test_a_message_that_is_not_to_be_learned_is_left_out_of_learning(
    tmp_path: Path, key: str, no: object
) -> None:
    found = read(tmp_path, {"messages": [ASK, {**BAD, key: no}, ASK, {**GOOD, key: 1}]})
    assert found == {"messages": [ASK, BAD, ASK, GOOD], "unlearned": [1]}
    found = read(tmp_path, {"prompt": [ASK], "completion": [{**BAD, key: no}, ASK, GOOD]})
    assert found == {"prompt": [ASK], "completion": [BAD, ASK, GOOD], "unlearned": [1]}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            {"messages": [ASK, {**GOOD, "weight": 0.5}]},
            "'messages[1].weight' must be 0 or 1, or false or true",
        ),
        ({"messages": [ASK, {**GOOD, "weight": "0"}]}, "'messages[1].weight' must be 0 or 1"),
        (
            {"messages": [{**ASK, "weight": 1}, GOOD]},
            "'messages[0].weight' 1 is not supported: only the assistant",
        ),
        (
            {"messages": [ASK, {**GOOD, "weight": 0}]},
            "no message of the assistant is to be learned; leave the row",
        ),
        ({"messages": [ASK, {**GOOD, "weight": 0, "train": True}, GOOD]}, "says both that it is learned and"),
        (
            {"messages": [ASK, {**GOOD, "mask": 1}]},
            "'messages[1].mask' is not supported; write 'weight': 0",
        ),
        ({"messages": [ASK, {**GOOD, "train_detail": []}]}, "'messages[1].train_detail' is not supported"),
        ({"messages": [ASK, GOOD], "weight": 0}, "'weight' 0 is not supported for a row"),
        ({"messages": [ASK, GOOD], "sample_weight": 2.5}, "'sample_weight' 2.5 is not supported for a row"),
        (
            {"messages": [ASK, GOOD], "assistant_masks": [0, 1]},
            "'assistant_masks' is not supported: rows are",
        ),
        ({"text": "abc", "labels": [1]}, "'labels' is not supported"),
        ({"text": "abc", "loss_mask": [1]}, "'loss_mask' is not supported"),
        ({"prompt": "a", "completion": "b", "train": False}, "'train' False is not supported for a row"),
        ({"prompt": "a", "completion": "b", "tools": [{"name": "f"}]}, "'tools' needs messages"),
        (
            {"messages": [ASK, GOOD], "images": ["a.png"]},
            "'images' is not supported: only text can be learned",
        ),
        ({"messages": [ASK, GOOD], "functions": [{}]}, "'functions' is not supported: write tools"),
        ({"messages": [ASK, {**GOOD, "function_call": {}}]}, "'messages[1].function_call' is the older form"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, GOOD]},
            "'messages[0].content[0]' of the type 'image_url' cannot be learned",
        ),
        (
            {"messages": [ASK, {**GOOD, "tool_calls": [{"function": {"name": "f", "arguments": "x"}}]}]},
            "'messages[1].tool_calls[0].function.arguments' is a text that holds no JSON object",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_file_and_line(
    tmp_path: Path, row: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TrainingDataError) as caught:
        read(tmp_path, row)
    assert str(caught.value).startswith(f"{tmp_path}/data.jsonl, line ")
    assert problem in str(caught.value)


def test_a_row_keeps_its_own_tools_and_gets_no_key_of_another(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "4"}
    conversation = [ASK, called, answer, GOOD]
    assert read(tmp_path, {"messages": conversation, "tools": tools}) == {
        "messages": conversation,
        "tools": tools,
    }
    assert read(tmp_path, {"messages": conversation, "tools": json.dumps(tools)})["tools"] == tools
    row = {"prompt": [ASK], "chosen": [called, answer, GOOD], "rejected": [BAD], "tools": tools}
    assert read(tmp_path, row, method="dpo") == row
    row = {"prompt": [ASK], "completion": [called, answer, GOOD], "tools": tools}
    assert read(tmp_path, row) == row
    file = tmp_path / "mixed.jsonl"
    other = {**CALL, "function": {"name": "find", "arguments": {"city": 3}}}
    lines = [
        {"messages": [ASK, {"role": "assistant", "content": "", "tool_calls": [call]}]}
        for call in (CALL, other)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(rows.read_dataset(file, "training", rows.chat).rows) == lines


def test_parts_that_are_text_are_one_text(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "2 + "}, {"type": "text", "text": "2?"}]
    assert read(tmp_path, {"messages": [{"role": "user", "content": parts}, GOOD]}) == {
        "messages": [ASK, GOOD]
    }


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "2 + 2?", "chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {"chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {"prompt": [ASK], "chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {"prompt": [ASK], "chosen": [GOOD], "rejected": [BAD]},
        {"prompt": [ASK], "chosen": [ASK, GOOD], "rejected": [BAD]},
        {"chosen_response": [ASK, GOOD], "rejected_response": [ASK, BAD], "score_chosen": 3},
    ],
)
def test_of_whole_conversations_the_common_beginning_is_the_prompt(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    assert read(tmp_path, row, method="dpo") == {"prompt": [ASK], "chosen": [GOOD], "rejected": [BAD]}


def test_the_common_beginning_ends_before_an_answer(tmp_path: Path) -> None:
    more = {"role": "user", "content": "and 3 + 3?"}
    row = {"chosen": [ASK, GOOD, more, GOOD], "rejected": [ASK, GOOD, more, BAD]}
    assert read(tmp_path, row, method="dpo") == {
        "prompt": [ASK, GOOD, more],
        "chosen": [GOOD],
        "rejected": [BAD],
    }


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            {"prompt": "x?", "chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
            "'prompt' is not one of the messages that",
        ),
        ({"chosen": [GOOD], "rejected": [BAD]}, "whole conversations that begin with the same messages"),
        ({"chosen": [ASK, GOOD], "rejected": [{**ASK, "content": "?"}, BAD]}, "begin with the same messages"),
        ({"prompt": [ASK], "chosen": [GOOD], "rejected": [GOOD]}, "'chosen' and 'rejected' are the same"),
        (
            {"prompt": [{"role": "system", "content": "s"}, ASK], "chosen": [ASK, GOOD], "rejected": [BAD]},
            "'chosen' must begin with the assistant's answer or with all of 'prompt', not with a message of",
        ),
        (
            {"prompt": [ASK], "chosen": [{**GOOD, "weight": 1}], "rejected": [BAD]},
            "'chosen[0].weight' is not supported",
        ),
        (
            {"chosen": "a", "chosen_response": "b", "rejected": "c", "prompt": "d"},
            "has both 'chosen_response' and",
        ),
        (
            {"prompt": "the sum", "chosen": "the sum is 4", "rejected": "the sum is 5"},
            "'chosen' and 'rejected' begin with the whole prompt, which would be learned twice",
        ),
    ],
)
def test_pairs_that_would_be_learned_wrongly_are_refused(
    tmp_path: Path, row: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TrainingDataError) as caught:
        read(tmp_path, row, method="dpo")
    assert problem in str(caught.value)
    assert ", line " in str(caught.value)


def test_a_completion_that_repeats_its_prompt_is_learned_once(tmp_path: Path) -> None:
    row = {"prompt": [ASK], "completion": [ASK, GOOD]}
    assert read(tmp_path, row) == {"prompt": [ASK], "completion": [GOOD]}
    with pytest.raises(
        TrainingDataError, match="'completion' begins with the whole prompt, which would be learned twice"
    ):
        read(tmp_path, {"prompt": "the sum of 2", "completion": "the sum of 2 is"})


def test_keys_of_which_nothing_is_learned_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    lines = [
        {"messages": [ASK, GOOD], "id": 1, "source": "web"},
        {"messages": [ASK, GOOD], "id": 2, "tools": []},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    base = {"engine": "unsloth", "method": "sft", "model": "m", "dataset": str(file), "output": "o"}
    assert rows.read_for(spec.parse_spec(base), file, "training").unused == {"id": 2, "source": 1}
    templated = spec.parse_spec({**base, "data": {"prompt_template": "{id} {source}"}})
    with pytest.raises(TrainingDataError, match=r"line 2: lacks 'source', which data.prompt_template needs"):
        rows.read_for(templated, file, "training")


def test_what_a_row_says_about_its_own_request_is_refused_in_training() -> None:
    made = Rewards({"verifier": {"type": "match"}})
    row = {"expected_answer": "4", "responses_create_params": {"input": [ASK], "tools": [{"name": "f"}]}}
    with pytest.raises(ValueError, match=r"'responses_create_params.tools' is not supported in training"):
        made.shape(row)
    assert made.shape({**row, "responses_create_params": {"input": [ASK], "tools": []}})["prompt"] == [ASK]
