"""Three OpenAI-compatible APIs seen as one: Responses parameters in, a Responses object out. Pure.

A request is described by parameters of the Responses API. `request_body` turns them into what the server's
API takes, `to_response` turns that API's answer into a Responses object. Whatever a server sends that is
none, `MalformedAnswerError` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from nemo_gym.types import Row, token_count

Api = Literal["chat", "completions", "responses"]

PATHS: dict[str, str] = {
    "chat": "/chat/completions",
    "completions": "/completions",
    "responses": "/responses",
}
"""Where each API is, below the base URL."""

_SAME_NAME = (
    "temperature",
    "top_p",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "parallel_tool_calls",
    "metadata",
)
_ONE_WHOLE_ANSWER = frozenset({"stream", "stream_options", "n", "best_of"})
"""Keys that would make a server send several answers or pieces of one; their defaults do neither."""
_COUNTS = ("input_tokens", "output_tokens", "total_tokens")


class MalformedAnswerError(Exception):
    """The server answered with something that is no answer of its API."""


def request_body(api: Api, model: str, params: Mapping[str, Any]) -> Row:
    """The body to post, from Responses parameters.

    ``extra_body`` is laid over the body last: it reaches parameters that only one server knows. Parameters
    that are ``None`` are left out, so that the server's own defaults hold. Whatever the parameters say,
    ``model`` is asked for one whole answer.
    """
    if api == "responses":
        body = {"model": model}
        body.update((k, v) for k, v in params.items() if v is not None and k != "extra_body")
    else:
        body = _older_body(api, model, params)
    extra = params.get("extra_body")
    if extra:
        body.update(extra)
    body["model"] = model
    for key in _ONE_WHOLE_ANSWER & body.keys():
        del body[key]
    return body


def to_response(api: Api, answer: Any) -> Row:
    """A Responses object from the server's parsed answer; raises `MalformedAnswerError`."""
    if not isinstance(answer, dict):
        raise MalformedAnswerError(f"the answer is a JSON {type(answer).__name__}, not an object")
    if api == "responses":
        return _checked_response(answer)
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswerError("the answer has no 'choices'")
    return _response_of_choice(answer, choices[0])


def messages_of(params: Mapping[str, Any]) -> list[Row]:
    """Chat messages from ``instructions`` and ``input``, tool calls and their results included."""
    messages: list[Row] = []
    if params.get("instructions"):
        messages.append({"role": "system", "content": params["instructions"]})
    given = params.get("input")
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
        return messages
    for item in given or ():
        kind = item.get("type", "message")
        if kind == "message":
            messages.append({"role": item.get("role", "user"), "content": _chat_content(item.get("content"))})
        elif kind == "function_call":
            _add_tool_call(messages, item)
        elif kind == "function_call_output":
            output = {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
            messages.append(output)
    return messages


def _older_body(api: Api, model: str, params: Mapping[str, Any]) -> Row:
    messages = messages_of(params)
    body: Row = {"model": model}
    if api == "chat":
        body["messages"] = messages
        _add_tools(body, params)
    else:
        body["prompt"] = "\n\n".join(_plain_text(message["content"]) for message in messages)
    for name in _SAME_NAME:
        value = params.get(name)
        if value is not None:
            body[name] = value
    limit = params.get("max_output_tokens")
    if limit is not None:
        body["max_tokens"] = limit
    reasoning = params.get("reasoning")
    if reasoning and reasoning.get("effort") is not None:
        body["reasoning_effort"] = reasoning["effort"]
    return body


def _add_tools(body: Row, params: Mapping[str, Any]) -> None:
    tools = params.get("tools")
    if not tools:
        return
    body["tools"] = [
        {"type": "function", "function": {k: v for k, v in tool.items() if k not in {"type", "strict"}}}
        if tool.get("type") == "function"
        else tool
        for tool in tools
    ]
    choice = params.get("tool_choice")
    if isinstance(choice, dict) and "name" in choice:
        choice = {"type": "function", "function": {"name": choice["name"]}}
    if choice is not None:
        body["tool_choice"] = choice


def _add_tool_call(messages: list[Row], item: Mapping[str, Any]) -> None:
    call = {
        "id": item.get("call_id"),
        "type": "function",
        "function": {"name": item.get("name"), "arguments": item.get("arguments", "")},
    }
    if messages and messages[-1]["role"] == "assistant":
        messages[-1].setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})


def _chat_content(content: Any) -> Any:
    """Content parts of the Responses API in the chat API's words; text alone becomes one string."""
    if not isinstance(content, list):
        return content
    if all(part.get("type") in {"input_text", "output_text", "text"} for part in content):
        return "".join(part.get("text", "") for part in content)
    return [_chat_part(part) for part in content]


def _chat_part(part: Mapping[str, Any]) -> Row:
    if part.get("type") == "input_image":
        return {"type": "image_url", "image_url": {"url": part.get("image_url")}}
    if part.get("type") in {"input_text", "output_text"}:
        return {"type": "text", "text": part.get("text", "")}
    return dict(part)


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts: Iterable[Mapping[str, Any]] = content or ()
    return "".join(part.get("text", "") for part in parts)


def _checked_response(answer: Row) -> Row:
    """A Responses object as the server sent it, in the shapes that whoever reads it later relies on."""
    output = answer.get("output")
    if not isinstance(output, list):
        raise MalformedAnswerError("the answer has no list 'output'")
    if not all(_is_item(item) for item in output):
        raise MalformedAnswerError("an item of 'output' is none")
    usage, details = answer.get("usage"), answer.get("incomplete_details")
    if isinstance(usage, dict):
        usage = {**usage, **{name: token_count(usage[name]) for name in _COUNTS if name in usage}}
    else:
        usage = None
    return {**answer, "usage": usage, "incomplete_details": details if isinstance(details, dict) else None}


def _is_item(item: Any) -> bool:
    """Whether this is an object and, if it is a message, has nothing but parts with text or without any."""
    if not isinstance(item, dict) or item.get("type") != "message":
        return isinstance(item, dict)
    parts = item.get("content") or []
    return isinstance(parts, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str | None) for part in parts
    )


def _detail(usage: Row, where: str, name: str) -> int:
    found = usage.get(where)
    return token_count(found.get(name)) if isinstance(found, dict) else 0


def _response_of_choice(answer: Row, choice: Row) -> Row:
    message = choice.get("message")
    if message is None:
        message = {"content": choice["text"]} if "text" in choice else {}
    if not isinstance(message, dict):
        raise MalformedAnswerError("the first choice holds no message")
    output = _output_items(answer.get("id"), message)
    if not output:
        raise MalformedAnswerError("the first choice holds neither text nor tool calls")
    truncated = choice.get("finish_reason") == "length"
    return {
        "id": answer.get("id"),
        "object": "response",
        "created_at": answer.get("created"),
        "model": answer.get("model"),
        "status": "incomplete" if truncated else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if truncated else None,
        "output": output,
        "usage": _usage(answer.get("usage")),
    }


def _output_items(answer_id: Any, message: Row) -> list[Row]:
    items: list[Row] = []
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        summary = [{"type": "summary_text", "text": reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{answer_id}", "summary": summary})
    text = message.get("content")
    calls = message.get("tool_calls") or ()
    if text is not None and not isinstance(text, str):
        raise MalformedAnswerError(f"the text of the first choice is a JSON {type(text).__name__}")
    if text is None and not calls and {"content", "refusal"} & message.keys():
        text = message.get("refusal") or ""  # a null answer is an empty one
    if text is not None:
        content: list[Row] = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "role": "assistant", "status": "completed", "content": content})
    items.extend(_function_call(call) for call in calls)
    return items


def _function_call(call: Any) -> Row:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise MalformedAnswerError("a tool call of the first choice names no function")
    return {
        "type": "function_call",
        "call_id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments", ""),
    }


def _usage(usage: Any) -> Row | None:
    if not isinstance(usage, dict):
        return None
    prompt, completion = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": prompt + completion,
    }
