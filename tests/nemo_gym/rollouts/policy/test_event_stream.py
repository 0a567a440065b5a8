"""Event streams that were not asked for."""

import json

import pytest

from nemo_gym.rollouts.policy.apis import to_response
from nemo_gym.rollouts.policy.event_stream import NotAStreamError, answer_of, looks_like_stream
from nemo_gym.types import answer_end, output_text, reasoning_text


def stream(*events, tail="data: [DONE]\n\n", line="data: "):
    return ": keep-alive\n\n" + "".join(f"{line}{json.dumps(event)}\n\n" for event in events) + tail


def chunk(finish=None, **delta):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


@pytest.mark.parametrize("line", ["data: ", "data:"])
def test_chunks_are_one_answer(line):
    usage = {"id": "c1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    text = stream(
        chunk(role="assistant", content=""), chunk(reasoning_content="hm"), chunk(content="4"),
        chunk(content="2"), chunk("stop"), usage, line=line,
    )  # fmt: skip
    response = to_response("chat", answer_of(text))
    assert (output_text(response), reasoning_text(response)) == ("42", "hm")
    assert (answer_end(response), response["usage"]["input_tokens"]) == ("completed", 3)
    assert response["object"] == "response"


def test_calls_of_tools_come_in_pieces():
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}
    more = [{"index": 0, "function": {"arguments": piece}} for piece in ('{"a"', ": 1}")]
    text = stream(*(chunk(tool_calls=[piece]) for piece in (first, *more)), chunk("tool_calls"))
    (call,) = to_response("chat", answer_of(text))["output"]
    assert (call["call_id"], call["name"], call["arguments"]) == ("c1", "look", '{"a": 1}')


def test_a_stream_that_breaks_off_has_no_stated_end():
    response = to_response("chat", answer_of(stream(chunk(content="4"), tail="")))
    assert (output_text(response), answer_end(response)) == ("4", "unstated")


def test_completions_and_responses_stream_too():
    pieces = [
        {"choices": [{"text": text, "finish_reason": end}]} for text, end in (("4", None), ("2", "stop"))
    ]
    assert output_text(to_response("completions", answer_of(stream(*pieces)))) == "42"
    item = {"type": "message", "content": [{"type": "output_text", "text": "42"}]}
    done = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    text = "event: response.completed\n" + stream({"type": "response.created", "response": {}}, done)
    assert output_text(to_response("responses", answer_of(text))) == "42"


def test_a_whole_answer_may_end_like_a_stream_or_stand_in_one():
    answer = {"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]}
    for text in (json.dumps(answer) + "\n\ndata: [DONE]\n\n", stream(answer)):
        assert looks_like_stream(text)
        assert output_text(to_response("chat", answer_of(text))) == "42"


@pytest.mark.parametrize("tail", ["\n\ndata: [DONE]\n\n", None])
def test_a_stream_is_read_as_loosely_as_a_whole_answer(tail):
    digits = "9" * 5000
    choice = '{"message": {"content": "4\\ud800"}, "finish_reason": "stop", "score": NaN}'
    text = f'{{"created": {digits}, "choices": [{choice}]}}'
    answer = answer_of(text + tail if tail else f"data: {text}\n\n")
    assert output_text(to_response("chat", answer)) == "4?"
    assert answer.get("created") is None


def test_an_error_in_a_stream_is_an_error():
    text = stream(chunk(content="4"), {"error": {"message": "lost", "code": 502}})
    assert answer_of(text)["error"]["message"] == "lost"
    assert (
        answer_of("event: error\n" + stream({"type": "error", "message": "lost"}))["error"]["message"]
        == "lost"
    )


@pytest.mark.parametrize("text", ["data: [DONE]\n\n", ": hello\n\n", "data: {broken\n\n", '{"a": 1} data: x'])
def test_a_stream_without_an_answer_is_named(text):
    with pytest.raises(NotAStreamError, match="without an answer"):
        answer_of(text)


def test_other_text_is_no_stream():
    assert not looks_like_stream("<html>data: x</html>")
    assert not looks_like_stream("")
