"""The calls in an answer, what goes back to the model, and the tokens of all turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemo_gym.agents.tool_calls import (
    as_input,
    calls_of,
    conversation,
    cut,
    with_call_ids,
)
from nemo_gym.agents.usage import spent_tokens, total_usage


def call(arguments: Any, call_id: Any = "c1", name: str = "add") -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def test_every_call_of_a_conversation_has_an_id_of_its_own() -> None:
    used: set[str] = set()
    first = with_call_ids([call("{}", "0"), call("{}", None), {"type": "message"}], used)
    second = with_call_ids([call("{}", "0"), call("{}", ""), call("{}", "mine")], used)
    ids = [item["call_id"] for item in first + second if "call_id" in item]
    assert (ids[0], ids[-1], len(set(ids))) == ("0", "mine", 5)
    assert first[2] == {"type": "message"}


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ("  ", {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ],
)
def test_arguments_are_an_object_however_a_server_writes_them(written: Any, arguments: Any) -> None:
    assert calls_of([call(written)])[0].arguments == arguments
    sent = as_input([call(written)])[0]["arguments"]
    assert json.loads(sent) == arguments


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{bad", "the arguments are not JSON"),
        ('{"a": ', "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"a": ["\\ud83d"]}', "half of a surrogate pair"),
        ('{"\\ude00": 1}', "half of a surrogate pair"),
    ],
)
def test_arguments_that_are_none_are_said_and_do_not_spoil_the_next_request(
    written: str, problem: str
) -> None:
    found = calls_of([call(written)])[0]
    assert found.arguments is None
    assert problem in found.problem
    assert json.loads(as_input([call(written)])[0]["arguments"]) == {"invalid_arguments": written}


def test_a_long_result_is_cut_between_characters_and_says_so() -> None:
    assert cut("abc", None, 3) == ("abc", None)
    assert cut("äöü", None, 3) == ("ä\n[cut: these are the first 3 of 6 bytes]", 6)
    assert cut("abc", 5000, 3) == ("abc\n[cut: these are the first 3 of 5,000 bytes]", 5000)
    assert cut("\ud800", None, 3) == ("?", None)


def test_tokens_of_all_turns_are_summed_with_their_details() -> None:
    turn = {
        "input_tokens": 5,
        "output_tokens": 2,
        "total_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    total = total_usage([turn, None, turn])
    assert total == {
        "input_tokens": 10,
        "output_tokens": 4,
        "total_tokens": 14,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    assert spent_tokens(total) == 14
    assert spent_tokens({"input_tokens": 3, "output_tokens": 1}) == 4
    assert total_usage([None]) is None


def test_a_conversation_is_a_list() -> None:
    assert conversation("hi") == [{"role": "user", "content": "hi"}]
    assert conversation([1]) == [1]
    assert conversation(None) == []
