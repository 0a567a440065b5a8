"""What requests of the API mean, and which are refused."""

from __future__ import annotations

import pytest

from nemo_engines.answering import asked
from nemo_engines.answering.asked import RefusedRequestError

HELLO = [{"role": "user", "content": "hello"}]


def test_what_is_left_out_has_its_default_and_parts_of_a_content_are_one_text():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    request = asked.read({"model": "m", "messages": [{"role": "user", "content": parts}]}, chat=True)
    assert request.messages == ({"role": "user", "content": "ab"},)
    assert request.settings == asked.AnswerSettings()
    assert not request.streamed


def test_fields_that_ask_for_nothing_are_taken():
    body = {"model": "m", "messages": HELLO, "n": 1, "tools": [], "logprobs": False, "presence_penalty": 0.0}
    assert asked.read({**body, "top_logprobs": None, "user": "ann"}, chat=True).model == "m"


def test_the_newer_name_of_the_limit_wins():
    body = {"model": "m", "prompt": "x", "max_tokens": 5, "max_completion_tokens": 7, "stop": "\n"}
    settings = asked.read(body, chat=False).settings
    assert (settings.most_tokens, settings.stop) == (7, ("\n",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n": 2}, "n: this server"),
        ({"tools": [{"type": "function"}]}, "tools: this server"),
        ({"logprobs": True}, "logprobs: this server"),
        ({"colour": "red"}, "colour: this server"),
        ({"temperature": -1}, "temperature: must be a number of at least 0"),
        ({"temperature": True}, "temperature: must be a number"),
        ({"max_tokens": "many"}, "max_tokens: must be a number"),
        ({"seed": 1.5}, "seed: must be a whole number"),
        ({"stop": [""]}, "stop: must be a text"),
        ({"messages": []}, "messages: must be a list"),
        ({"messages": ["x"]}, "messages[0]: must have a role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "only parts of the type 'text'",
        ),
        ({"model": ""}, "model: must be a text"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_field(changes, said):
    with pytest.raises(RefusedRequestError) as refused:
        asked.read({"model": "m", "messages": HELLO, **changes}, chat=True)
    assert said in str(refused.value)


def test_a_body_that_is_no_object_is_refused():
    with pytest.raises(RefusedRequestError, match="JSON object"):
        asked.read([], chat=True)
