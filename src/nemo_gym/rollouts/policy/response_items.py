"""From input in the words of the chat API to items of the Responses API. Pure.

Items that are in the words of the Responses API already stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_gym.rollouts.policy.chat_messages import CannotBeSentError, with_text_arguments
from nemo_gym.rollouts.policy.reasoning import reasoning_item, with_thoughts
from nemo_gym.types import Row

_CHAT_ONLY = ("tool_calls", "tool_call_id", "reasoning_content", "reasoning", "refusal")
_NO_PLACE = ("name", "audio", "function_call")
_CHAT_PARTS = frozenset({"text", "image_url", "file"})


def items_of(given: Any) -> Any:
    """The input of a request to the Responses API. Raises `CannotBeSentError`."""
    if not isinstance(given, list):
        return given
    if any("tags" in item for item in given):
        given = with_thoughts(given)
    found: list[Row] = []
    for number, item in enumerate(given):
        try:
            found.extend(_items(item))
        except CannotBeSentError as error:
            raise CannotBeSentError(f"input[{number}] {error}") from None
    return found


def _items(item: Row) -> Iterator[Row]:
    content = item.get("content")
    if item.keys() == {"role", "content"} and type(content) is str and item["role"] != "tool":
        yield item
        return
    if item.get("type", "message") != "message":
        yield item
        return
    role = item.get("role")
    if not isinstance(role, str):
        raise CannotBeSentError("has no role")
    for key in _NO_PLACE:
        if item.get(key) is not None:
            raise CannotBeSentError(f"has {key!r}, which the Responses API has no place for in a message")
    if role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": item.get("tool_call_id"),
            "output": _content(content, "user"),
        }
        return
    yield from _message(item, role)


def _message(item: Row, role: str) -> Iterator[Row]:
    thoughts = item.get("reasoning_content") or item.get("reasoning")
    if isinstance(thoughts, str):
        yield reasoning_item(thoughts)
    parts = _content(item.get("content"), role)
    if item.get("refusal"):
        spoken = [{"type": "output_text", "text": parts}] if isinstance(parts, str) else parts or []
        parts = [*spoken, {"type": "refusal", "refusal": item["refusal"]}]
    calls = item.get("tool_calls") or ()
    if parts is None and not calls:
        raise CannotBeSentError("has no content")
    if parts:
        yield {**{k: v for k, v in item.items() if k not in _CHAT_ONLY}, "content": parts}
    for call in calls:
        yield _call(call)


def _call(call: Any) -> Row:
    if isinstance(call, dict) and isinstance(custom := call.get("custom"), dict):
        return {"type": "custom_tool_call", "call_id": call.get("id"), **custom}
    function = with_text_arguments(call).get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise CannotBeSentError("has a tool call that names no function")
    return {"type": "function_call", "call_id": call.get("id"), **function}


def _content(content: Any, role: str) -> Any:
    if not isinstance(content, list):
        return content
    if not all(isinstance(part, dict) for part in content):
        raise CannotBeSentError("has a content that is neither text nor a list of parts")
    return [_part(part, role) if part.get("type") in _CHAT_PARTS else part for part in content]


def _part(part: Mapping[str, Any], role: str) -> Row:
    kind = part["type"]
    if kind == "text":
        return {**part, "type": "output_text" if role == "assistant" else "input_text"}
    if kind == "file":
        return {"type": "input_file", **(part.get("file") or {})}
    image = part.get("image_url")
    image = image if isinstance(image, dict) else {"url": image}
    detail = {"detail": image["detail"]} if image.get("detail") else {}
    return {"type": "input_image", "image_url": image.get("url"), **detail}
