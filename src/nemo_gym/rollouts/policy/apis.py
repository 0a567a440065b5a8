"""Three OpenAI-compatible APIs seen as one: Responses parameters in, a Responses object out. Pure.

A request is described by parameters of the Responses API. `request_body` turns them into what the server's
API takes, `to_response` turns that API's answer into a Responses object. What an API has no place for is
refused (`CannotBeSentError`), anything else that a server sends is named (`MalformedAnswerError`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from nemo_gym.rollouts.policy.answers import MalformedAnswerError, of_choice
from nemo_gym.rollouts.policy.chat_messages import CannotBeSentError, messages_of
from nemo_gym.rollouts.policy.instruction_roles import SystemRole, with_system_role
from nemo_gym.rollouts.policy.reasoning import without_thoughts
from nemo_gym.rollouts.policy.response_items import items_of
from nemo_gym.types import Row, token_count

__all__ = [
    "PATHS",
    "Api",
    "CannotBeSentError",
    "MalformedAnswerError",
    "messages_of",
    "request_body",
    "to_response",
]

Api = Literal["chat", "completions", "responses"]

PATHS: dict[str, str] = {
    "chat": "/chat/completions",
    "completions": "/completions",
    "responses": "/responses",
}
"""Where each API is, below the base URL."""

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_TRANSLATED = frozenset(
    {"input", "instructions", "tools", "tool_choice", "max_output_tokens", "reasoning", "text", "extra_body"}
)
_OF_THE_RUN = frozenset({"model", "messages", "prompt"})
"""What the run and the question say, not a parameter."""
_ONE_WHOLE_ANSWER = frozenset({"stream", "stream_options", "n", "best_of"})
"""Keys that would make a server send several answers or pieces of one; their defaults do neither."""
_RESPONSES_ONLY = {
    "previous_response_id": None,
    "conversation": None,
    "include": None,
    "background": False,
    "truncation": "disabled",
    "max_tool_calls": None,
}
"""Parameters that the older APIs have no place for, with the value that may be left out unheard."""
_CHAT_ONLY = ("tools", "tool_choice", "text", "response_format")


def request_body(
    api: Api,
    model: str,
    params: Mapping[str, Any],
    *,
    system_role: SystemRole | None = None,
    limit_name: str = "max_tokens",
) -> Row:
    """The body to post, from Responses parameters.

    ``extra_body`` is laid over the body last: it reaches parameters that only one server knows. Parameters
    that are ``None`` are left out, so that the server's own defaults hold; those that the API has no other
    name for are passed on as they are. Regardless of the parameters, ``model`` is asked for one whole answer.
    ``system_role`` is how the server wants instructions,
    ``limit_name`` what it calls the token limit. Raises `CannotBeSentError`.
    """
    if api == "responses":
        body = _responses_body(model, params, system_role)
    elif api == "chat":
        body = _chat_body(model, params, system_role, limit_name)
    else:
        body = _completions_body(model, params)
    extra = params.get("extra_body")
    if extra:
        body.update(extra)
    body["model"] = model
    for key in _ONE_WHOLE_ANSWER & body.keys():
        del body[key]
    return body


def to_response(api: Api, answer: Any) -> Row:
    """A Responses object from the server's parsed answer; raises `MalformedAnswerError`.

    Thoughts within the text are cut out of it; see `nemo_gym.rollouts.policy.reasoning`.
    """
    if not isinstance(answer, dict):
        raise MalformedAnswerError(f"the answer is a JSON {type(answer).__name__}, not an object")
    if api == "responses":
        return _checked_response(answer)
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswerError("the answer has no 'choices'")
    return of_choice(answer, choices[0])


def withheld(words: str) -> Row:
    """The answer of a server whose content filter refused the question itself."""
    details = {"reason": "content_filter", "message": words}
    return {
        "object": "response",
        "status": "incomplete",
        "incomplete_details": details,
        "output": [],
        "usage": None,
    }


def _responses_body(model: str, params: Mapping[str, Any], system_role: SystemRole | None) -> Row:
    body: Row = {"model": model}
    body.update((k, v) for k, v in params.items() if v is not None and k != "extra_body")
    if "input" in body:
        body["input"] = with_system_role(items_of(body["input"]), system_role)
    if "tools" in body:
        body["tools"] = [_flat_tool(tool) for tool in _tools(body["tools"])]
    if isinstance(choice := body.get("tool_choice"), dict) and isinstance(choice.get("function"), dict):
        body["tool_choice"] = {"type": "function", **choice["function"]}
    form = body.pop("response_format", None)
    if form is not None:
        schema = form.get("json_schema") if isinstance(form, dict) else None
        form = {"type": form["type"], **schema} if isinstance(schema, dict) else form
        body["text"] = {**body.get("text", {}), "format": form}
    return body


def _chat_body(model: str, params: Mapping[str, Any], system_role: SystemRole | None, limit_name: str) -> Row:
    body: Row = {"model": model, "messages": with_system_role(messages_of(params), system_role)}
    if params.get("tools"):
        body["tools"] = [_nested_tool(tool) for tool in _tools(params["tools"])]
        choice = params.get("tool_choice")
        if isinstance(choice, dict) and "name" in choice:
            choice = {"type": "function", "function": {"name": choice["name"]}}
        if choice is not None:
            body["tool_choice"] = choice
    if params.get("text"):
        _add_text_format(body, params["text"])
    _add_common(body, params, limit_name)
    return body


def _completions_body(model: str, params: Mapping[str, Any]) -> Row:
    """The texts of all messages, a blank line between them: this API has no roles and no parts."""
    for name in _CHAT_ONLY:
        if params.get(name):
            raise CannotBeSentError(f"{name!r} has no place in the completions API")
    texts = []
    for number, message in enumerate(messages_of(params)):
        if message.keys() - {"role", "content"} or not isinstance(message["content"], str):
            raise CannotBeSentError(
                f"message {number} holds more than text, and the completions API takes no more"
            )
        texts.append(message["content"])
    body: Row = {"model": model, "prompt": "\n\n".join(texts)}
    _add_common(body, params, "max_tokens")
    return body


def _add_common(body: Row, params: Mapping[str, Any], limit_name: str) -> None:
    """Everything besides messages and tools."""
    for name, value in params.items():
        if value is None or name in _TRANSLATED or name in _OF_THE_RUN:
            continue
        if name in _RESPONSES_ONLY:
            if value and value != _RESPONSES_ONLY[name]:
                raise CannotBeSentError(f"{name!r} is for the Responses API alone (policy_api: responses)")
            continue
        body[name] = value
    limit = params.get("max_output_tokens")
    if limit is not None:
        body[limit_name] = limit
    reasoning = params.get("reasoning")
    if reasoning:
        others = sorted(key for key, value in reasoning.items() if key != "effort" and value is not None)
        if others:
            raise CannotBeSentError(
                f"reasoning.{others[0]} is for the Responses API alone; "
                "what this server calls it goes into extra_body"
            )
        if reasoning.get("effort") is not None:
            body["reasoning_effort"] = reasoning["effort"]


def _add_text_format(body: Row, text: Mapping[str, Any]) -> None:
    """``text.format`` and ``text.verbosity`` under the chat API's names."""
    form = text.get("format")
    if isinstance(form, dict):
        if form.get("type") == "json_schema" and "json_schema" not in form:
            schema = {key: value for key, value in form.items() if key != "type"}
            form = {"type": "json_schema", "json_schema": schema}
        body["response_format"] = form
    if text.get("verbosity") is not None:
        body["verbosity"] = text["verbosity"]


def _tools(tools: Any) -> list[Row]:
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise CannotBeSentError("tools must be a list of objects")
    return tools


def _nested_tool(tool: Row) -> Row:
    """A function tool with its description below ``function``, however the row writes it."""
    if tool.get("type", "function") != "function" or "function" in tool:
        return tool
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}


def _flat_tool(tool: Row) -> Row:
    if isinstance(tool.get("function"), dict):
        return {"type": "function", **tool["function"]}
    return tool


def _checked_response(answer: Row) -> Row:
    """A Responses object as the server sent it, in the shapes that its later readers rely on."""
    output = answer.get("output")
    if not isinstance(output, list):
        raise MalformedAnswerError("the answer has no list 'output'")
    if not all(_is_item(item) for item in output):
        raise MalformedAnswerError("an item of 'output' is not an output item")
    usage, details = answer.get("usage"), answer.get("incomplete_details")
    if isinstance(usage, dict):
        usage = {**usage, **{name: token_count(usage[name]) for name in _COUNTS if name in usage}}
    else:
        usage = None
    found = {**answer, "output": without_thoughts(output), "usage": usage}
    found["incomplete_details"] = details if isinstance(details, dict) and details else None
    if not isinstance(answer.get("status"), str):
        found["status"] = "incomplete"
        found["incomplete_details"] = found["incomplete_details"] or {"reason": "unstated"}
    return found


def _is_item(item: Any) -> bool:
    """Whether this is an object and, if it is a message, has only parts with text or without any."""
    if not isinstance(item, dict) or item.get("type") != "message":
        return isinstance(item, dict)
    parts = item.get("content") or []
    return isinstance(parts, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str | None) for part in parts
    )
