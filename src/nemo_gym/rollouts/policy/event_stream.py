"""Event streams that come although none was asked for, made into the one answer that they are. Pure.

Some servers stream whatever is asked, some send a whole answer and end it like a stream (``data: [DONE]``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nemo_gym.rollouts.policy.http_body import parsed_json, parsed_start
from nemo_gym.types import Row

_PIECES = ("content", "refusal", "reasoning_content", "reasoning", "thinking")
"""Texts of a message that come piece by piece."""
_FINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class NotAStreamError(ValueError):
    """The text is not an event stream, or one without an answer."""


def looks_like_stream(text: str) -> bool:
    """Whether this text, which is not JSON, is an event stream or ends like one."""
    start = text.lstrip("\ufeff \t\r\n")
    return start.startswith(("data:", "event:", "id:", ":", "retry:")) or "\ndata:" in start


def answer_of(text: str) -> Any:
    """The answer that the stream holds, as if it had been sent whole. Raises `NotAStreamError`.

    A stream that breaks off gives an answer without an end: what was sent, and no finish reason.
    """
    whole = _with_stream_tail(text)
    if whole is not None:
        return whole
    events = list(_events(text))
    if not events:
        raise NotAStreamError("an event stream without an answer in it")
    for event in reversed(events):
        if _str(event.get("type")) in _FINAL_EVENTS and isinstance(event.get("response"), dict):
            return event["response"]
    for event in events:
        if event.get("error") or (event.get("type") == "error"):
            return event if event.get("error") else {"error": event}
    if any("choices" in event for event in events):
        return _joined(events)
    return events[-1]


def _with_stream_tail(text: str) -> Any:
    """A JSON value that only the tail of a stream follows, else ``None``."""
    start = text.lstrip("\ufeff \t\r\n")
    if not start.startswith("{"):
        return None
    try:
        value, tail = parsed_start(start)
    except ValueError:
        return None
    rest = [line.strip() for line in tail.splitlines() if line.strip()]
    return value if all(line == "data: [DONE]" or line.startswith(":") for line in rest) else None


def _events(text: str) -> Iterator[Row]:
    """The JSON objects of the stream's data; comments, names and the end mark are left out."""
    data: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
            continue
        if line.strip() or not data:
            continue
        yield from _parsed(data)
        data = []


def _parsed(data: list[str]) -> Iterator[Row]:
    """One event's data; several lines are one value, or one value each where a server forgets blank lines."""
    whole = _loads("\n".join(data))
    for value in [whole] if whole is not None else map(_loads, data):
        if isinstance(value, dict):
            yield value


def _loads(text: str) -> Any:
    try:
        return parsed_json(text.encode())
    except ValueError:
        return None


def _joined(events: list[Row]) -> Row:
    """Chunks of the chat or completions API as one answer with one choice."""
    answer: Row = {}
    message: Row = {"role": "assistant"}
    calls: dict[Any, Row] = {}
    choice: Row = {"index": 0, "message": message, "finish_reason": None}
    for event in events:
        answer.update({k: v for k, v in event.items() if k not in {"choices", "object"} and v is not None})
        for part in _list(event.get("choices")):
            if not isinstance(part, dict) or part.get("index") not in (0, None):
                continue
            delta = part.get("delta") or part.get("message") or {"content": part.get("text")}
            if isinstance(delta, dict):
                _add(message, calls, delta)
            more = {
                k: v for k, v in part.items() if k not in {"index", "delta", "message", "text", "logprobs"}
            }
            choice.update({k: v for k, v in more.items() if v is not None})
    if calls:
        message["tool_calls"] = list(calls.values())
    if not message.keys() & {*_PIECES, "tool_calls"}:
        message["content"] = None
    return {**answer, "choices": [choice]}


def _add(message: Row, calls: dict[Any, Row], delta: Row) -> None:
    for key, value in delta.items():
        if key in _PIECES and isinstance(value, str):
            message[key] = _str(message.get(key)) + value
        elif isinstance(value, list) and key != "tool_calls":
            message[key] = [*_list(message.get(key)), *value]
        elif key not in {*_PIECES, "tool_calls"} and value is not None:
            message[key] = value
    for number, piece in enumerate(_list(delta.get("tool_calls"))):
        if not isinstance(piece, dict):
            continue
        index = piece.get("index")
        call = calls.setdefault(
            index if isinstance(index, int) else number, {"id": None, "type": "function", "function": {}}
        )
        call["id"] = piece.get("id") or call["id"]
        function = piece.get("function")
        if isinstance(function, dict):
            known = call["function"]
            known["name"] = function.get("name") or known.get("name")
            known["arguments"] = known.get("arguments", "") + _str(function.get("arguments"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""
