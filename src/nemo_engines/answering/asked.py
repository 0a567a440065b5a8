"""What a request of the OpenAI-compatible API asks for; what cannot be done here is refused by its field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LONGEST_ANSWER = 1024
"""Tokens of an answer when the request sets no limit."""

_IGNORED = frozenset(
    (
        *("model", "messages", "prompt", "stream", "stream_options", "user", "metadata", "store"),
        *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "stop"),
    )
)
"""Fields that are read, or that change no answer."""
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "parallel_tool_calls": (True, False),
}
"""Fields that are taken with the value that asks for nothing."""


class RefusedRequestError(Exception):
    """The request cannot be answered; the message says which field, and what would be right."""


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How an answer is made."""

    temperature: float = 1.0
    """0 takes the likeliest token each time."""
    top_p: float = 1.0
    top_k: int = 0
    """How many of the likeliest tokens are sampled from; 0 means all."""
    most_tokens: int = LONGEST_ANSWER
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """Texts at which the answer ends; they are left out."""


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One request for an answer."""

    model: str
    settings: AnswerSettings
    streamed: bool
    with_usage: bool
    """Whether a stream ends with the numbers of tokens."""
    messages: tuple[dict[str, Any], ...] = ()
    prompt: str | None = None
    """The text to go on with, of a request without messages."""


def read(body: Any, *, chat: bool) -> AnswerRequest:
    """Read the JSON body of a request; raises `RefusedRequestError`."""
    if not isinstance(body, dict):
        raise RefusedRequestError("the body must be a JSON object")
    for name, value in body.items():
        if name in _IGNORED or value is None or value in _NEUTRAL.get(name, ()):
            continue
        raise RefusedRequestError(f"{name}: this server cannot do that; leave the field out")
    options = body.get("stream_options")
    return AnswerRequest(
        model=_text(body, "model"),
        settings=_settings(body),
        streamed=body.get("stream") is True,
        with_usage=isinstance(options, dict) and options.get("include_usage") is True,
        messages=_messages(body.get("messages")) if chat else (),
        prompt=None if chat else _text(body, "prompt"),
    )


def _settings(body: Mapping[str, Any]) -> AnswerSettings:
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    seed = body.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise RefusedRequestError("seed: must be a whole number")
    return AnswerSettings(
        temperature=_number(body, "temperature", 1.0, 0.0, 100.0),
        top_p=_number(body, "top_p", 1.0, 0.0, 1.0),
        top_k=int(_number(body, "top_k", 0, -1, 1e9)),
        most_tokens=int(_number({"max_tokens": most}, "max_tokens", LONGEST_ANSWER, 1, 1e9)),
        seed=seed,
        stop=_stops(body.get("stop")),
    )


def _number(body: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise RefusedRequestError(f"{name}: must be a number of at least {least:g}, at most {most:g}")
    return value


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise RefusedRequestError(f"{name}: must be a text")
    return value


def _stops(value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise RefusedRequestError("stop: must be a text, or a list of texts")
    return tuple(found)


def _messages(value: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list) or not value:
        raise RefusedRequestError("messages: must be a list of messages")
    return tuple(_message(number, one) for number, one in enumerate(value))


def _message(number: int, value: Any) -> dict[str, Any]:
    where = f"messages[{number}]"
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        raise RefusedRequestError(f"{where}: must have a role and a content")
    content = value.get("content")
    if isinstance(content, list):
        content = _joined(where, content)
    if not isinstance(content, str):
        raise RefusedRequestError(f"{where}.content: must be a text")
    return {"role": value["role"], "content": content}


def _joined(where: str, parts: Sequence[Any]) -> str:
    """The text of a content in parts."""
    texts = []
    for part in parts:
        if not isinstance(part, dict) or part.get("type") not in ("text", "input_text"):
            raise RefusedRequestError(f"{where}.content: only parts of the type 'text' can be read here")
        texts.append(str(part.get("text") or ""))
    return "".join(texts)
