"""From Responses input to messages of the chat API: every key travels, and what cannot is refused. Pure.

The input of a request may be written in the words of either API, also mixed. Items of the Responses API
(``function_call``, ``input_text``) become what the chat API calls them; messages in its own words stay as
they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from nemo_gym.rollouts.policy.reasoning import with_thoughts
from nemo_gym.types import Row, reasoning_text

_BOOKKEEPING = frozenset({"type", "id", "status"})
"""Keys of the Responses API that say nothing to a model."""
_ANSWERS_WITHOUT_CONTENT = (
    "tool_calls",
    "refusal",
    "audio",
    "function_call",
    "reasoning_content",
    "reasoning",
)
_TEXT = frozenset({"input_text", "output_text"})
_EMPTY = ("annotations", "logprobs")


class CannotBeSentError(ValueError):
    """What a request holds has no place in the API that it is to be sent to."""


def messages_of(params: Mapping[str, Any]) -> list[Row]:
    """Chat messages from ``instructions`` and ``input``, tool calls and their results included.

    Raises `CannotBeSentError` with a phrase for what the chat API has no place for.
    """
    messages: list[Row] = []
    if params.get("instructions"):
        messages.append({"role": "system", "content": params["instructions"]})
    given = params.get("input")
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
        return messages
    _Conversation(messages).add(given or ())
    return messages


class _Conversation:
    """Chat messages in the making; thoughts wait for the message that they belong to."""

    def __init__(self, messages: list[Row]) -> None:
        self._messages = messages
        self._thoughts = ""

    def add(self, items: Any) -> None:
        for item in items:
            if "tags" in item:
                items = with_thoughts(items)
                break
        for number, item in enumerate(items):
            if item.keys() == {"role", "content"} and type(item["content"]) is str:
                self._messages.append(item)  # as almost all are: nothing to translate
                continue
            try:
                self._add(item)
            except CannotBeSentError as error:
                raise CannotBeSentError(f"input[{number}] {error}") from None

    def _add(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type", "message")
        if kind == "message":
            self._add_message(item)
        elif kind in {"function_call", "custom_tool_call"}:
            self._add_tool_call(item)
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            content = chat_content(item.get("output"))
            self._messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
        elif kind == "reasoning":
            self._thoughts += _thought(item)
        else:
            raise CannotBeSentError(f"is a {kind!r}, which the chat API has no message for")

    def _add_message(self, item: Mapping[str, Any]) -> None:
        role = item.get("role")
        if not isinstance(role, str):
            raise CannotBeSentError("has no role")
        message = {key: value for key, value in item.items() if key not in _BOOKKEEPING}
        content = chat_content(item.get("content"))
        if content is not None or "content" in item:
            message["content"] = content
        if content is None and not any(item.get(key) for key in _ANSWERS_WITHOUT_CONTENT):
            raise CannotBeSentError("has no content")
        if isinstance(item.get("tool_calls"), list):
            message["tool_calls"] = [with_text_arguments(call) for call in item["tool_calls"]]
        if role == "assistant":
            self._give_thoughts(message)
        self._messages.append(message)

    def _add_tool_call(self, item: Mapping[str, Any]) -> None:
        if item.get("type") == "function_call":
            function = {"name": item.get("name"), "arguments": _as_text(item.get("arguments", ""))}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
        else:
            custom = {"name": item.get("name"), "input": item.get("input", "")}
            call = {"id": item.get("call_id"), "type": "custom", "custom": custom}
        last = self._messages[-1] if self._messages else {}
        if last.get("role") == "assistant" and not self._thoughts:
            self._messages[-1] = {**last, "tool_calls": [*(last.get("tool_calls") or ()), call]}
            return
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        self._give_thoughts(message)
        self._messages.append(message)

    def _give_thoughts(self, message: Row) -> None:
        if self._thoughts:
            message.setdefault("reasoning_content", self._thoughts)
            self._thoughts = ""


def chat_content(content: Any) -> Any:
    """The content of a message in the chat API's words.

    Parts that are only text in the Responses API's words become one string, which every server takes.
    """
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise CannotBeSentError("has a content that is neither text nor a list of parts")
    if content and all(part.get("type") in _TEXT and not _more(part) for part in content):
        return "".join(part.get("text") or "" for part in content)
    return [_chat_part(part) for part in content]


def _more(part: Mapping[str, Any]) -> Row:
    """The keys of a text part that carry anything besides its text."""
    return {
        key: value
        for key, value in part.items()
        if key not in {"type", "text"} and not (key in _EMPTY and not value)
    }


def _chat_part(part: Mapping[str, Any]) -> Row:
    kind = part.get("type")
    if kind in _TEXT:
        return {"type": "text", "text": part.get("text") or "", **_more(part)}
    if kind == "input_image":
        return _image(part)
    if kind == "input_file":
        return _file(part)
    if (
        isinstance(kind, str)
        and kind.startswith(("input_", "output_", "computer_"))
        and kind != "input_audio"
    ):
        raise CannotBeSentError(f"has a part {kind!r}, which the chat API has no part for")
    return dict(part)


def _image(part: Mapping[str, Any]) -> Row:
    url = part.get("image_url")
    if not url:
        raise CannotBeSentError("has an image without image_url; the chat API takes no file_id of an image")
    image = dict(url) if isinstance(url, dict) else {"url": url}
    if part.get("detail"):
        image["detail"] = part["detail"]
    known = {"type", "image_url", "detail", "file_id"}
    return {"type": "image_url", "image_url": image, **{k: v for k, v in part.items() if k not in known}}


def _file(part: Mapping[str, Any]) -> Row:
    if part.get("file_url"):
        raise CannotBeSentError("has a file by its file_url, which the chat API does not take")
    names = ("file_id", "file_data", "filename")
    return {"type": "file", "file": {name: part[name] for name in names if part.get(name)}}


def _thought(item: Mapping[str, Any]) -> str:
    text = reasoning_text({"output": [item]})
    if not text and item.get("encrypted_content"):
        raise CannotBeSentError("is an encrypted thought, which the chat API cannot carry")
    return text


def with_text_arguments(call: Any) -> Any:
    """A tool call whose arguments are JSON text, as the APIs want them, also where a row has an object."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or isinstance(function.get("arguments", ""), str):
        return call
    return {**call, "function": {**function, "arguments": _as_text(function["arguments"])}}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
