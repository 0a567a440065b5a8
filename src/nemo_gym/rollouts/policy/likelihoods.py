"""How likely a model finds a text after another: the request, and what is read out of the answer. Pure.

A completions server is asked for one more token and for the log-probability of each token of the prompt. One
that does not give these must be noticed: of missing numbers exact chance would come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nemo_gym.rollouts.policy.answers import MalformedAnswerError
from nemo_gym.types import LogLikelihood, Row, token_count

PATH: Final = "/completions"


class NoLikelihoodsError(MalformedAnswerError):
    """The server gives no log-probability for each token of a prompt."""


def request_body(model: str, tokens: Sequence[int]) -> Row:
    """The body to post for a prompt of token ids."""
    return {
        "model": model,
        "prompt": list(tokens),
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }


def read(answer: Any, *, context: int, tokens: int) -> LogLikelihood:
    """The log-likelihood of the last ``tokens - context`` tokens of a prompt of ``tokens``.

    Raises `NoLikelihoodsError`, or `MalformedAnswerError` for no answer at all.
    """
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswerError("the answer has no 'choices'")
    found = choices[0].get("logprobs")
    found = found if isinstance(found, dict) else {}
    values, others = found.get("token_logprobs"), found.get("top_logprobs")
    if not isinstance(values, list) or not isinstance(others, list) or len(values) < tokens:
        there = len(values) if isinstance(values, list) else 0
        raise NoLikelihoodsError(f"it gave {there} log-probabilities for a prompt of {tokens} tokens")
    wanted, best = values[context:tokens], others[context:tokens]
    if not all(type(value) in (int, float) for value in wanted) or not all(map(_is_table, best)):
        raise NoLikelihoodsError("it gave something else than a log-probability for tokens of the prompt")
    greedy = all(value == max(top.values()) for value, top in zip(wanted, best, strict=False))
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return LogLikelihood(
        sum(wanted),
        greedy,
        input_tokens=token_count(usage.get("prompt_tokens")),
        output_tokens=token_count(usage.get("completion_tokens")),
    )


def _is_table(top: object) -> bool:
    return isinstance(top, dict) and bool(top) and all(type(v) in (int, float) for v in top.values())
