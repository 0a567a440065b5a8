"""From an answer of the chat or completions API to a Responses object: text, thoughts, calls, end. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nemo_gym.rollouts.policy.reasoning import reasoning_item, without_thoughts
from nemo_gym.types import Row, answer_end, token_count

_GOOD_ENDS = frozenset(
    {
        "stop",
        "eos",
        "eos_token",
        "stop_sequence",
        "stop_token",
        "end_turn",
        "complete",
        "completed",
        "finished",
    }
)
_ENDS = {
    **dict.fromkeys(
        ("length", "max_tokens", "model_length", "max_length", "max_output_tokens"), "max_output_tokens"
    ),
    **dict.fromkeys(
        (
            "content_filter",
            "content_filtered",
            "safety",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "image_safety",
            "guardrail_intervened",
            "sensitive",
        ),
        "content_filter",
    ),
    **dict.fromkeys(("refusal", "refused"), "refusal"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call", "tool_call"), "tool_calls"),
}
"""What servers say instead of ``stop``, in lower case, and how an answer ended then."""

FAILED_ENDS = frozenset(
    {"error", "abort", "aborted", "cancelled", "network_error", "malformed_function_call"}
)
"""Ends that are failures of the server: the answer is worth another try."""

_MESSAGE_KEYS = frozenset(
    {
        "role",
        "content",
        "refusal",
        "tool_calls",
        "function_call",
        "reasoning_content",
        "reasoning",
        "thinking",
        "annotations",
        "audio",
    }
)
_ANSWER_KEYS = frozenset({"id", "object", "created", "model", "choices", "usage", "error"})
_CHOICE_KEYS = frozenset({"index", "message", "delta", "text", "finish_reason", "logprobs", "error"})
_THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking")
_TEXT_PARTS = frozenset({"text", "output_text"})
_THOUGHT_PARTS = frozenset({"thinking", "reasoning", "reasoning_text", "redacted_thinking"})


class MalformedAnswerError(Exception):
    """The server answered with something that is not an answer of its API."""


def of_choice(answer: Row, choice: Row) -> Row:
    """The Responses object for the first choice of an answer; raises `MalformedAnswerError`."""
    message = _message_of(choice)
    finish = choice.get("finish_reason")
    items = _output_items(answer.get("id"), message, choice)
    if not items:
        if finish is None or not isinstance(finish, str):
            raise MalformedAnswerError("the first choice holds neither text nor tool calls")
        items = [_message_item([_text("")])]
    end = end_of(finish)
    if end is not None and end["reason"] == answer_end({"output": items}):
        end = None  # calls of tools and a refusal say so themselves
    response: Row = {
        "id": answer.get("id"),
        "object": "response",
        "created_at": answer.get("created"),
        "model": answer.get("model"),
        "status": "completed" if end is None else "incomplete",
        "incomplete_details": end,
        "output": without_thoughts(items),
        "usage": usage_of(answer.get("usage")),
    }
    _add_more(response, answer, _ANSWER_KEYS)
    _add_more(response, choice, _CHOICE_KEYS)
    return response


def end_of(finish: Any) -> Row | None:
    """``incomplete_details`` for a finish reason, ``None`` for a good one.

    Words other than the API's own are beside the reason, so that nothing that the server said is lost.
    """
    if finish == "stop":
        return None
    if not isinstance(finish, str):
        return {"reason": "unstated"} if finish is None else {"reason": str(finish)}
    word = finish.strip().lower()
    if not word:
        return {"reason": "unstated"}
    if word in _GOOD_ENDS:
        return None
    reason = _ENDS.get(word, word)
    details = {"reason": reason}
    if finish not in {"length", reason}:
        details["finish_reason"] = finish
    return details


def usage_of(usage: Any) -> Row | None:
    """The usage in the Responses API's words; ``None`` where the server counted nothing."""
    if not isinstance(usage, dict):
        return None
    prompt = token_count(usage.get("prompt_tokens", usage.get("input_tokens")))
    completion = token_count(usage.get("completion_tokens", usage.get("output_tokens")))
    cached = _detail(usage, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    thought = _detail(usage, ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": thought or token_count(usage.get("reasoning_tokens"))},
        "total_tokens": prompt + completion,
    }


def _detail(usage: Row, places: tuple[str, ...], name: str) -> int:
    for place in places:
        found = usage.get(place)
        if isinstance(found, dict):
            return token_count(found.get(name))
    return 0


def _message_of(choice: Row) -> Row:
    message = choice.get("message")
    if message is None:
        message = choice.get("delta")
    if message is None:
        message = {"content": choice["text"]} if "text" in choice else {}
    if not isinstance(message, dict):
        raise MalformedAnswerError("the first choice holds no message")
    return message


def _output_items(answer_id: Any, message: Row, choice: Row) -> list[Row]:
    items: list[Row] = []
    parts, thoughts = _content(message.get("content"))
    thought = thoughts
    for key in _THOUGHT_KEYS:
        if given := message.get(key):
            thought = _thought(given) or thought
            break
    if thought:
        items.append(reasoning_item(thought, id=f"rs_{answer_id}"))
    if message.get("refusal"):
        parts.append({"type": "refusal", "refusal": str(message["refusal"])})
    if isinstance(message.get("audio"), dict):
        parts.append({"type": "output_audio", **message["audio"]})
    calls = _calls(message)
    if not parts and not calls and (message.keys() & {"content", "refusal"} or thought):
        parts.append(_text(""))  # a null answer is an empty one
    if parts:
        item = _message_item(parts)
        _add_annotations(item, message)
        _add_logprobs(item, choice)
        _add_more(item, message, _MESSAGE_KEYS)
        items.append(item)
    items.extend(calls)
    return items


def _content(content: Any) -> tuple[list[Row], str]:
    """Parts of a message in the Responses API's words, and the thoughts among them."""
    if content is None:
        return [], ""
    if isinstance(content, str):
        return [_text(content)], ""
    if not isinstance(content, list):
        raise MalformedAnswerError(f"the text of the first choice is a JSON {type(content).__name__}")
    parts: list[Row] = []
    thoughts: list[str] = []
    for part in content:
        kind = part.get("type", "text") if isinstance(part, dict) else None
        if isinstance(part, str):
            parts.append(_text(part))
        elif not isinstance(kind, str):
            raise MalformedAnswerError("a part of the first choice's content has no type")
        elif kind in _TEXT_PARTS and isinstance(part.get("text"), str):
            parts.append(
                {**_text(part["text"]), **{k: v for k, v in part.items() if k not in {"type", "text"}}}
            )
        elif kind in _THOUGHT_PARTS:
            thoughts.append(_thought(part))
        elif kind not in _TEXT_PARTS:
            parts.append(part)
        else:
            raise MalformedAnswerError("a part of the first choice's content is neither text nor known")
    return parts, "".join(thoughts)


def _thought(value: Any) -> str:
    """The text of thoughts in whatever way a server nests them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_thought(part) for part in value)
    if isinstance(value, dict):
        keys = ("thinking", "text", "reasoning", "summary", "content")
        return next((found for key in keys if (found := _thought(value.get(key)))), "")
    return ""


def _calls(message: Row) -> list[Row]:
    calls = message.get("tool_calls")
    if not calls:
        if not isinstance(message.get("function_call"), dict):
            return []
        calls = [{"function": message["function_call"]}]  # as the chat API wrote a call before tools
    if not isinstance(calls, list):
        raise MalformedAnswerError("the tool calls of the first choice are not a list")
    return [_call(call) for call in calls]


def _call(call: Any) -> Row:
    if isinstance(call, dict) and isinstance(custom := call.get("custom"), dict):
        return {"type": "custom_tool_call", "call_id": call.get("id"), **custom}
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise MalformedAnswerError("a tool call of the first choice names no function")
    return {
        "type": "function_call",
        "call_id": None if call.get("id") is None else _as_text(call["id"]),
        "name": _as_text(function.get("name")),
        "arguments": _as_text(function.get("arguments")),
    }


def _as_text(value: Any) -> str:
    """What the API has as a text: some servers send arguments as an object, and numbers for names."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _message_item(parts: list[Row]) -> Row:
    return {"type": "message", "role": "assistant", "status": "completed", "content": parts}


def _text(text: str) -> Row:
    return {"type": "output_text", "text": text, "annotations": []}


def _add_annotations(item: Row, message: Row) -> None:
    """Put annotations of the message where the Responses API has them: at its text, and not nested."""
    given = message.get("annotations")
    first = item["content"][0]
    if not isinstance(given, list) or first["type"] != "output_text":
        return
    for annotation in given:
        kind = annotation.get("type") if isinstance(annotation, dict) else None
        inner = annotation.get(kind) if isinstance(kind, str) else None
        flat = {"type": kind, **inner} if isinstance(inner, dict) else annotation
        first["annotations"].append(flat)


def _add_logprobs(item: Row, choice: Row) -> None:
    given = choice.get("logprobs")
    first = item["content"][0]
    if isinstance(given, dict) and first["type"] == "output_text":
        first["logprobs"] = given.get("content", given)


def _add_more(target: Row, source: Mapping[str, Any], known: frozenset[str]) -> None:
    """Keep what the server said beyond its API, too, where it does not conflict with ours."""
    for key in source.keys() - known:
        if source[key] is not None:
            target.setdefault(key, source[key])
