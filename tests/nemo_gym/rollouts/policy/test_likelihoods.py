"""What of an answer is a likelihood, and when a server has none to give."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rollouts.policy.answers import MalformedAnswerError
from nemo_gym.rollouts.policy.likelihoods import NoLikelihoodsError, read, request_body


def answer(values: Any, best: Any) -> dict[str, Any]:
    found = {"token_logprobs": values, "top_logprobs": best}
    return {"choices": [{"text": "x", "logprobs": found}], "usage": {"prompt_tokens": 4}}


TOPS = [None, {"a": -1.0}, {"b": -2.0, "c": -0.5}, {"d": -3.0}, {"e": -9.0}]


def test_the_prompt_is_sent_as_token_ids_with_one_more_token_asked_for() -> None:
    body = request_body("m", (1, 2, 3))
    assert body["prompt"] == [1, 2, 3]
    assert (body["max_tokens"], body["echo"], body["logprobs"], body["temperature"]) == (1, True, 1, 0)


@pytest.mark.parametrize(
    ("context", "tokens", "value", "greedy"),
    [(3, 4, -3.0, True), (2, 4, -5.0, False), (1, 2, -1.0, True), (1, 4, -6.0, False)],
)
def test_only_tokens_of_the_continuation_count_and_not_the_generated_one(
    context: int, tokens: int, value: float, greedy: bool
) -> None:
    found = read(answer([None, -1.0, -2.0, -3.0, -9.0], TOPS), context=context, tokens=tokens)
    assert (found.value, found.greedy, found.input_tokens) == (value, greedy, 4)


def test_a_server_that_generates_nothing_more_is_read_as_well() -> None:
    assert read(answer([None, -1.0, -2.0], TOPS[:3]), context=1, tokens=3).value == -3.0


@pytest.mark.parametrize(
    "values",
    [
        {"choices": [{"text": "x"}]},
        {"choices": [{"text": "x", "logprobs": None}]},
        answer([-9.0], [{"e": -9.0}]),
        answer([None, -1.0, None, -3.0], TOPS),
        answer([None, -1.0, "-2", -3.0], TOPS),
        answer([None, -1.0, -2.0, -3.0], [None, {}, {}, {}]),
        answer([None, -1.0, -2.0, -3.0], None),
        answer({"content": []}, TOPS),
    ],
)
def test_missing_log_probabilities_are_never_taken_for_numbers(values: dict[str, Any]) -> None:
    with pytest.raises(NoLikelihoodsError):
        read(values, context=1, tokens=4)


@pytest.mark.parametrize("nothing", [None, [], {}, {"choices": []}, {"choices": ["x"]}])
def test_no_answer_is_malformed(nothing: Any) -> None:
    with pytest.raises(MalformedAnswerError, match="choices"):
        read(nothing, context=1, tokens=2)
