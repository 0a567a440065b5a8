import contextlib
import json
import random

import pytest

from nemo_gym.rollouts.policy import event_stream, provider_errors
from nemo_gym.rollouts.policy.answers import usage_of
from nemo_gym.rollouts.policy.apis import (
    CannotBeSentError,
    MalformedAnswerError,
    messages_of,
    request_body,
    to_response,
)
from nemo_gym.types import answer_end, is_truncated, output_text, reasoning_text

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
    function = {"name": "look", "parameters": {"type": "object"}, "strict": True}
    assert body["tools"] == [{"type": "function", "function": function}]
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


def test_parts_of_a_call_are_texts_whatever_a_server_sends():
    calls = [{"id": 5, "function": {"name": 7, "arguments": {"city": "Oran"}}}, {"function": {"name": None}}]
    response = to_response("chat", chat("", message={"role": "assistant", "tool_calls": calls}))
    found = [(item["call_id"], item["name"], item["arguments"]) for item in response["output"]]
    assert found == [("5", "7", '{"city": "Oran"}'), (None, "", "")]


@pytest.mark.parametrize("tokens", [10**30, 1e308, "9" * 16, -1, True, float("nan"), None])
def test_a_number_of_tokens_that_cannot_be_one_counts_nothing(tokens):
    usage = usage_of({"prompt_tokens": tokens, "completion_tokens": 2})
    assert (usage["input_tokens"], usage["total_tokens"]) == (0, 2)


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
    "usage",
    [[1], "x", {"input_tokens": "nine", "prompt_tokens": "-9", "completion_tokens": [1]}, {"x": None}],
)
def test_a_count_of_tokens_that_is_no_number_counts_nothing(usage):
    found = to_response("chat", chat("4") | {"usage": usage})["usage"] or {}
    assert found.get("total_tokens", 0) == 0
    found = to_response(
        "responses", {"status": "completed", "output": [], "usage": usage, "incomplete_details": "x"}
    )
    assert (found["usage"] or {}).get("input_tokens", 0) == 0
    assert found["incomplete_details"] is None


def test_details_of_the_usage_that_are_none_are_left_out():
    usage = {"prompt_tokens": 3, "prompt_tokens_details": "x", "completion_tokens_details": [1]}
    found = to_response("chat", chat("4") | {"usage": usage})["usage"]
    assert (found["input_tokens"], found["input_tokens_details"]) == (3, {"cached_tokens": 0})


# How an answer ended


@pytest.mark.parametrize(
    ("finish", "end", "word"),
    [
        ("stop", "completed", None),
        ("eos", "completed", None),
        ("STOP", "completed", None),
        ("end_turn", "completed", None),
        ("stop_sequence", "completed", None),
        ("length", "max_output_tokens", None),
        ("max_tokens", "max_output_tokens", "max_tokens"),
        ("MAX_TOKENS", "max_output_tokens", "MAX_TOKENS"),
        ("content_filter", "content_filter", None),
        ("SAFETY", "content_filter", "SAFETY"),
        ("RECITATION", "content_filter", "RECITATION"),
        ("refusal", "refusal", None),
        ("tool_calls", "tool_calls", None),
        (None, "unstated", None),
        ("", "unstated", None),
        (" ", "unstated", None),
        ("repetition_detected", "other", None),
        (7, "other", None),
    ],
)
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_the_end_that_a_server_names_is_understood_and_its_own_word_kept(api, finish, end, word):
    choice = {"message": {"role": "assistant", "content": "42"}} if api == "chat" else {"text": "42"}
    response = to_response(api, {"choices": [{**choice, "finish_reason": finish}]})
    assert answer_end(response) == end
    assert output_text(response) == "42"
    assert (response["status"] == "completed") is (end == "completed")
    if word:
        assert response["incomplete_details"]["finish_reason"] == word
    if end == "other":
        assert response["incomplete_details"]["reason"] == str(finish)


def test_a_refusal_is_no_text_of_the_answer():
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    response = to_response("chat", chat("", message=message))
    assert (answer_end(response), output_text(response)) == ("refusal", "")
    assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "I cannot help with that."}]


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "tool_use"])
def test_calls_of_tools_are_no_whole_answer_whatever_the_server_calls_the_end(finish):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": "I look it up.", "tool_calls": [call]}
    response = to_response("chat", chat("", message=message, finish_reason=finish))
    assert (answer_end(response), response["status"]) == ("tool_calls", "completed")


@pytest.mark.parametrize("message", [{"role": "assistant"}, {}, None])
@pytest.mark.parametrize(
    ("finish", "end"),
    [("length", "max_output_tokens"), ("content_filter", "content_filter"), ("stop", "completed")],
)
def test_an_end_without_a_message_is_an_empty_answer(message, finish, end):
    response = to_response("chat", {"choices": [{"message": message, "finish_reason": finish}]})
    assert (answer_end(response), output_text(response)) == (end, "")


def test_an_answer_of_the_responses_api_without_a_status_has_no_stated_end():
    item = {"type": "message", "content": [{"type": "output_text", "text": "4"}]}
    assert answer_end(to_response("responses", {"output": [item]})) == "unstated"
    assert answer_end(to_response("responses", {"output": [item], "status": "completed"})) == "completed"
    filtered = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}
    assert answer_end(to_response("responses", filtered)) == "content_filter"


# Messages travel whole


def test_messages_of_the_chat_api_are_sent_as_they_are():
    call = {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "developer", "content": "Be brief.", "name": "boss"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "b", "content": "34", "name": "look"},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": "half an ans", "prefix": True},
    ]
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    choice = {"type": "function", "function": {"name": "look"}}
    body = request_body("chat", "m", {"input": messages, "tools": tools, "tool_choice": choice})
    assert (body["messages"], body["tools"], body["tool_choice"]) == (messages, tools, choice)


def test_messages_of_the_chat_api_become_items_of_the_responses_api():
    call = {"id": "b", "type": "function", "function": {"name": "look", "arguments": {"city": "Oran"}}}
    image = {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, image]},
        {"role": "assistant", "content": "I look.", "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "b", "content": "34"},
        {"role": "assistant", "content": None, "refusal": "No."},
    ]
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    params = {"input": messages, "response_format": form}
    params["tools"] = [{"type": "function", "function": {"name": "look"}}]
    body = request_body("responses", "m", params)
    picture = {"type": "input_image", "image_url": "data:x", "detail": "low"}
    assert body["input"] == [
        messages[0],
        {"role": "user", "content": [{"type": "input_text", "text": "Look."}, picture]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": '{"city":"Oran"}'},
        {"type": "function_call_output", "call_id": "b", "output": "34"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ]
    assert body["tools"] == [{"type": "function", "name": "look"}]
    assert body["text"] == {"format": {"type": "json_schema", "name": "n", "schema": {}}}
    assert "response_format" not in body


def test_items_of_the_responses_api_become_messages_with_all_that_they_hold():
    given = [
        {
            "type": "message",
            "id": "m1",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "u"}],
        },
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": {"a": 1}},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "rain"}]},
        {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "a b"},
    ]
    function = {"name": "look", "arguments": '{"a":1}'}
    assert messages_of({"input": given}) == [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            "reasoning_content": "hm",
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c2", "type": "custom", "custom": {"name": "sh", "input": "ls"}}],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "a b"},
    ]


def test_an_answer_that_is_sent_back_is_what_the_server_said():
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    message = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nI look.", "tool_calls": calls}
    response = to_response("chat", chat("", message=message))
    assert messages_of({"input": response["output"]}) == [message]
    native = {"role": "assistant", "content": "4", "reasoning_content": "two and two"}
    assert messages_of({"input": to_response("chat", chat("", message=native))["output"]}) == [native]


@pytest.mark.parametrize(
    ("api", "params", "reason"),
    [
        ("chat", {"input": [{"type": "web_search_call", "id": "w"}]}, r"input\[0\] is a 'web_search_call'"),
        ("chat", {"input": [{"type": "item_reference", "id": "i"}]}, "item_reference"),
        ("chat", {"input": [{"role": "user", "content": [{"type": "input_video"}]}]}, "input_video"),
        (
            "chat",
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "file_id",
        ),
        (
            "chat",
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "f"}]}]},
            "file_url",
        ),
        ("chat", {"input": [{"type": "reasoning", "encrypted_content": "gA"}]}, "encrypted"),
        ("chat", {"input": [{"from": "human", "value": "hi"}]}, "has no role"),
        ("chat", {"input": [{"role": "user"}]}, "has no content"),
        ("chat", {"input": [{"role": "assistant", "content": None}]}, "has no content"),
        ("chat", {"input": [{"role": "user", "content": {"text": "hi"}}]}, "neither text nor a list"),
        ("chat", {"input": "x", "previous_response_id": "r"}, "previous_response_id"),
        ("chat", {"input": "x", "reasoning": {"summary": "auto"}}, r"reasoning\.summary"),
        ("responses", {"input": [{"role": "user", "content": "x", "name": "ann"}]}, "'name'"),
        ("responses", {"input": [{"role": "assistant", "content": None}]}, "has no content"),
        ("completions", {"input": "x", "tools": [{"type": "function", "name": "f"}]}, "'tools'"),
        ("completions", {"input": [{"role": "user", "content": [{"type": "image_url"}]}]}, "more than text"),
    ],
)
def test_what_an_api_has_no_place_for_is_refused_by_name(api, params, reason):
    with pytest.raises(CannotBeSentError, match=reason):
        request_body(api, "m", params)


def test_parameters_in_the_words_of_the_chat_api_reach_it():
    params = {"input": "x", "response_format": {"type": "json_object"}, "top_k": 5, "logprobs": True}
    body = request_body("chat", "m", params)
    assert body | {"response_format": {"type": "json_object"}, "top_k": 5, "logprobs": True} == body
    form = {"type": "json_schema", "name": "n", "schema": {}, "strict": True}
    body = request_body("chat", "m", {"input": "x", "text": {"format": form, "verbosity": "low"}})
    schema = {"name": "n", "schema": {}, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert body["verbosity"] == "low"


def test_instructions_are_sent_in_the_role_that_the_server_wants():
    params = {"input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]}
    sent = {
        role: request_body("chat", "m", params, system_role=role)["messages"]
        for role in (None, "system", "developer", "user")
    }
    assert [message["role"] for message in sent[None]] == ["developer", "user"]
    assert [message["role"] for message in sent["system"]] == ["system", "user"]
    assert [message["role"] for message in sent["developer"]] == ["developer", "user"]
    assert sent["user"] == [{"role": "user", "content": "Be brief.\n\n2 + 2?"}]
    items = request_body("responses", "m", params, system_role="system")["input"]
    assert items[0] == {"role": "system", "content": "Be brief."}


# What else an answer holds


def test_an_answer_as_a_list_of_parts_is_text_and_thoughts():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "9? No, 8."}]}
    response = to_response("chat", chat([thinking, {"type": "text", "text": "8"}, "!"]))
    assert (output_text(response), reasoning_text(response)) == ("8!", "9? No, 8.")


@pytest.mark.parametrize(
    "message",
    [
        {"content": "4", "reasoning_content": "two and two"},
        {"content": "4", "reasoning": "two and two"},
        {"content": "4", "reasoning": [{"type": "reasoning.text", "text": "two and two"}]},
        {"content": "4", "reasoning": {"summary": "two and two"}},
        {"content": "4", "thinking": "two and two"},
        {"content": "<think>two and two</think>4"},
        {"content": [{"type": "reasoning", "text": "two and two"}, {"type": "output_text", "text": "4"}]},
    ],
)
def test_thoughts_are_found_wherever_a_server_puts_them(message):
    response = to_response("chat", chat("", message={"role": "assistant", **message}))
    assert (output_text(response), reasoning_text(response)) == ("4", "two and two")
    assert answer_end(response) == "completed"


def test_annotations_logprobs_and_what_else_a_server_says_are_kept():
    cited = {"type": "url_citation", "url_citation": {"url": "http://a", "title": "t"}}
    message = {"role": "assistant", "content": "4", "annotations": [cited], "mood": "glad"}
    answer = chat("", message=message, logprobs={"content": [{"token": "4"}]}, stop_reason="###")
    response = to_response("chat", answer | {"system_fingerprint": "fp", "citations": ["http://a"]})
    (item,) = response["output"]
    assert item["content"][0]["annotations"] == [{"type": "url_citation", "url": "http://a", "title": "t"}]
    assert item["content"][0]["logprobs"] == [{"token": "4"}]
    assert item["mood"] == "glad"
    assert (response["stop_reason"], response["system_fingerprint"]) == ("###", "fp")
    assert response["citations"] == ["http://a"]


def test_a_call_in_the_words_before_tools_is_a_call():
    message = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    response = to_response("chat", chat("", message=message, finish_reason="function_call"))
    assert (response["output"][0]["name"], answer_end(response)) == ("look", "tool_calls")


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": "11", "completion_tokens": "7", "reasoning_tokens": 5},
        {"input_tokens": 11, "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 5}},
    ],
)
def test_tokens_are_counted_under_the_names_that_servers_use(usage):
    found = to_response("chat", chat("4") | {"usage": usage})["usage"]
    assert (found["input_tokens"], found["output_tokens"]) == (11, 7)
    assert found["output_tokens_details"]["reasoning_tokens"] == 5


CHAT = {
    "id": "x",
    "choices": [
        {
            "message": {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "a"}]},
                    {"type": "text", "text": "b"},
                ],
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "n", "arguments": "{}"}}],
                "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 1}},
}
RESPONSE = {
    "status": "completed",
    "output": [
        {
            "type": "message",
            "content": [{"type": "output_text", "text": "<think>a</think>b"}, {"type": "refusal"}],
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]},
        {"type": "function_call", "name": "n"},
    ],
}
JUNK = [None, 0, 1.5, "x", "", [], {}, [1], {"a": 1}, True, [None], {"type": 4}, [[]], {"text": 3}]


def mutated(value, draw):
    if draw.random() < 0.12:
        return draw.choice(JUNK)
    if isinstance(value, dict):
        return {key: mutated(item, draw) for key, item in value.items() if draw.random() > 0.05}
    return [mutated(item, draw) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("api", "answer"), [("chat", CHAT), ("responses", RESPONSE)])
def test_whatever_stands_in_an_answer_it_is_read_or_said_to_be_malformed(api, answer):
    draw = random.Random(7)
    for _ in range(3000):
        odd = mutated(answer, draw)
        body = f"data: {json.dumps(odd)}\n\ndata: {json.dumps(mutated(odd, draw))}\n\n"
        for found in (odd, event_stream.answer_of(body) if isinstance(odd, dict) else odd):
            if provider_errors.inside(found) is not None:
                continue
            with contextlib.suppress(MalformedAnswerError):
                response = to_response(api, found)
                assert answer_end(response)
                assert isinstance(output_text(response) + reasoning_text(response), str)
