import pytest

from nemo_gym.rollouts.policy_apis import MalformedAnswerError, messages_of, request_body, to_response
from nemo_gym.types import is_truncated, output_text

PARAMS = {
    "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}],
    "temperature": 0.5,
    "top_p": None,
    "max_output_tokens": 8,
    "seed": 3,
    "reasoning": {"effort": "low"},
    "extra_body": {"top_k": 5, "temperature": 0.1},
}


def chat(content, **more):
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": "stop",
    } | more
    return {"id": "x", "created": 5, "model": "m", "choices": [choice], "usage": None}


def test_chat_takes_messages_renamed_limits_and_the_extra_body_last():
    assert request_body("chat", "m", PARAMS) == {
        "model": "m",
        "messages": PARAMS["input"],
        "temperature": 0.1,
        "max_tokens": 8,
        "seed": 3,
        "reasoning_effort": "low",
        "top_k": 5,
    }


def test_completions_take_the_messages_as_one_text():
    body = request_body("completions", "m", PARAMS)
    assert body["prompt"] == "Be brief.\n\n2 + 2?"
    assert body["max_tokens"] == 8
    assert "messages" not in body


def test_responses_take_the_parameters_as_they_are_without_those_that_are_none():
    body = request_body("responses", "m", PARAMS)
    assert body["input"] == PARAMS["input"]
    assert body["max_output_tokens"] == 8
    assert body["top_k"] == 5
    assert not {"top_p", "extra_body"} & body.keys()


def test_the_parameters_are_never_changed():
    before = repr(PARAMS)
    for api in ("chat", "completions", "responses"):
        request_body(api, "m", PARAMS)
    assert repr(PARAMS) == before


def test_a_plain_text_input_and_instructions_become_messages():
    messages = messages_of({"instructions": "Be kind.", "input": "Hi"})
    assert messages == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]


def test_tool_calls_and_their_results_become_chat_messages():
    given = [
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "ask", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    ]
    user, assistant, tool = messages_of({"input": given})
    assert user["content"] == "Weather?"
    assert [call["id"] for call in assistant["tool_calls"]] == ["c1", "c2"]
    assert tool == {"role": "tool", "tool_call_id": "c1", "content": "rain"}


def test_function_tools_are_nested_for_chat():
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}
    body = request_body(
        "chat", "m", {"input": "x", "tools": [tool], "tool_choice": {"type": "function", "name": "look"}}
    )
    assert body["tools"] == [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "look"}}


def test_a_chat_answer_becomes_a_responses_object():
    answer = chat("4") | {
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": None}
    }
    response = to_response("chat", answer)
    assert output_text(response) == "4"
    assert not is_truncated(response)
    assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == (7, 2)
    assert response["status"] == "completed"


def test_an_answer_cut_at_the_limit_says_so():
    assert is_truncated(to_response("chat", chat("4", finish_reason="length")))


def test_reasoning_is_kept_apart_from_the_text():
    message = {"role": "assistant", "content": "4", "reasoning_content": "two and two"}
    response = to_response("chat", chat("", message=message))
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert output_text(response) == "4"


def test_a_completion_becomes_a_responses_object():
    assert (
        output_text(to_response("completions", {"choices": [{"text": " 4", "finish_reason": "stop"}]}))
        == " 4"
    )


def test_tool_calls_of_an_answer_become_items():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    (item,) = to_response("chat", chat("", message=message))["output"]
    assert (item["type"], item["call_id"], item["name"]) == ("function_call", "c1", "look")


def test_a_null_content_is_an_empty_answer():
    assert output_text(to_response("chat", chat(None))) == ""


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        ("chat", []),
        ("chat", {}),
        ("chat", {"choices": []}),
        ("chat", {"choices": [{}]}),
        ("chat", {"choices": [{"message": {}}]}),
        ("chat", {"choices": [{"message": "hello"}]}),
        ("chat", {"choices": [{"message": {"content": 4}}]}),
        ("chat", {"choices": [{"message": {"content": None, "tool_calls": [{"id": 1}]}}]}),
        ("completions", {"choices": [None]}),
        ("responses", {"output": "4"}),
        ("responses", {"output": ["4"]}),
        ("responses", {"output": [{"type": "message", "content": "4"}]}),
        ("responses", {"output": [{"type": "message", "content": [{"type": "output_text", "text": 4}]}]}),
    ],
)
def test_what_is_no_answer_is_said_to_be_malformed(api, answer):
    with pytest.raises(MalformedAnswerError):
        to_response(api, answer)


@pytest.mark.parametrize(
    "usage", [[1], "x", {"input_tokens": "9", "prompt_tokens": "9", "completion_tokens": [1]}, {"x": None}]
)
def test_a_count_of_tokens_that_is_no_number_counts_nothing(usage):
    found = to_response("chat", chat("4") | {"usage": usage})["usage"] or {}
    assert found.get("total_tokens", 0) == 0
    found = to_response("responses", {"output": [], "usage": usage, "incomplete_details": "x"})
    assert (found["usage"] or {}).get("input_tokens", 0) == 0
    assert found["incomplete_details"] is None


def test_details_of_the_usage_that_are_none_are_left_out():
    usage = {"prompt_tokens": 3, "prompt_tokens_details": "x", "completion_tokens_details": [1]}
    found = to_response("chat", chat("4") | {"usage": usage})["usage"]
    assert (found["input_tokens"], found["input_tokens_details"]) == (3, {"cached_tokens": 0})
