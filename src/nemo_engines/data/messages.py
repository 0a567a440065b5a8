"""Messages of a row: checked, and cleared of what is said about them rather than in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from nemo_runs import json_lines

Message = dict[str, Any]

LEARNED_WHERE: Final = ("weight", "train", "training", "loss")
"""Keys of a message that say whether it is learned: 0 and false leave it out, 1 and true do not."""
_AMBIGUOUS: Final = (
    *("mask", "masked", "loss_mask", "labels", "learn", "learnable", "trainable"),
    *("train_detail", "training_detail", "train_on_input"),
)
_MEDIA: Final = ("images", "image", "videos", "audio", "audios")
_TO_LEARN: Final = frozenset({"reasoning_content", "reasoning", "thinking", "tool_calls", "refusal"})
"""Keys whose value is a part of the answer: lost for learning where the chat template does not name them."""


class Conversation(NamedTuple):
    """Messages as a chat template takes them."""

    messages: list[Message]
    unlearned: list[int]
    """Indices of the messages that must not be learned."""


def conversation(value: object, name: str) -> Conversation:
    """Messages of a row; `ValueError` with a phrase for what is not supported or is not a message."""
    if value is None:
        raise ValueError(f"lacks '{name}'")
    if not isinstance(value, list) or not value:
        raise ValueError(f"'{name}' must be a list of messages that is not empty")
    made, unlearned = [], []
    for index, message in enumerate(value):
        where = f"{name}[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError(f"'{where}' must be an object with a role")  # noqa: TRY004 - as for all rows
        if not _is_learned(message, where):
            unlearned.append(index)
        made.append(_plain(message, where))
    return Conversation(made, unlearned)


def check_messages(value: object, name: str) -> list[Message]:
    """Messages of which all or nothing is learned: none may say for itself whether it is."""
    found = conversation(value, name)
    for index, message in enumerate(value if isinstance(value, list) else []):
        given = [key for key in LEARNED_WHERE if message.get(key) is not None]
        if given:
            raise ValueError(f"'{name}[{index}].{given[0]}' is not supported here; leave it out")
    return found.messages


def check_learnable(found: Conversation, name: str, start: int = 0) -> None:
    """`ValueError` for an answer that is to be learned and says nothing; those before ``start`` are read."""
    for index, message in enumerate(found.messages[start:], start):
        if message["role"] != "assistant" or index in found.unlearned or must_be_named(message):
            continue
        if not (message.get("content") or "").strip():
            raise ValueError(
                f"'{name}[{index}]' is an empty answer; leave it out, or say 'weight': 0 if it is only read"
            )


def _is_learned(message: Mapping[str, Any], where: str) -> bool:
    for key in _AMBIGUOUS:
        if message.get(key) is not None:
            raise ValueError(
                f"'{where}.{key}' is not supported; write 'weight': 0 for what is not to be learned"
            )
    given = {key: message[key] for key in LEARNED_WHERE if message.get(key) is not None}
    for key, value in given.items():
        if not isinstance(value, bool | int | float) or value not in (0, 1):
            raise ValueError(f"'{where}.{key}' must be 0 or 1, or false or true")
        if value and message["role"] != "assistant":
            raise ValueError(
                f"'{where}.{key}' {value!r} is not supported: only the assistant's messages are meant"
            )
    if len({bool(value) for value in given.values()}) > 1:
        raise ValueError(f"'{where}' says both that it is learned and that it is not: {', '.join(given)}")
    return all(given.values())


def _plain(message: Mapping[str, Any], where: str) -> Message:
    made = {key: value for key, value in message.items() if key not in LEARNED_WHERE}
    if isinstance(made.get("content"), list):
        made["content"] = _joined(made["content"], where)
    if message.get("function_call") is not None:
        raise ValueError(f"'{where}.function_call' is the older form of tool calls; write tool_calls")
    if not isinstance(made.get("content"), str) and not message.get("tool_calls"):
        raise ValueError(f"'{where}' must have a text as content")
    if not isinstance(made.get("content"), str | None):
        raise ValueError(f"'{where}.content' must be a text")  # noqa: TRY004 - as for all rows
    if message.get("tool_calls"):
        for call, place in calls(message, where):
            as_object(call.get("arguments"), f"{place}.arguments")
    elif "tool_calls" in made:
        del made["tool_calls"]
    return made


def _joined(parts: list[Any], where: str) -> str:
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else None
            raise ValueError(  # noqa: TRY004 - as for all rows
                f"'{where}.content[{index}]' of the type {kind!r} cannot be learned; only text can"
            )
    return "".join(part["text"] for part in parts)


def calls(message: Mapping[str, Any], where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The parts of a message's tool calls that hold name and arguments, each with its place."""
    check_objects(message["tool_calls"], f"{where}.tool_calls")
    for index, call in enumerate(message["tool_calls"]):
        place = f"{where}.tool_calls[{index}]"
        inner = call.get("function")
        if inner is None:
            yield call, place
        elif isinstance(inner, dict):
            yield inner, f"{place}.function"
        else:
            raise ValueError(f"'{place}.function' must be an object")


def as_object(arguments: object, where: str) -> dict[str, Any]:
    """Arguments of a call as an object, written so or, as the OpenAI API does, as JSON text."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        raise ValueError(f"'{where}' must be an object, or JSON text of one")  # noqa: TRY004 - as for all rows
    try:
        return json_lines.parse_row(arguments.encode(), 0)
    except ValueError as error:
        raise ValueError(f"'{where}' is a text that holds no JSON object: {error}") from None


def check_objects(value: object, name: str) -> None:
    """`ValueError` with a phrase for what is not a list of objects."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"'{name}' must be a list of objects")


def check_row(row: Mapping[str, Any], uses: frozenset[str] = frozenset()) -> None:
    """Refuse keys of a row that say what is learned and are not supported; ``uses`` are read as data."""
    for key in (*LEARNED_WHERE, "sample_weight", "loss_weight"):
        value = row.get(key)
        if key not in uses and value is not None and value not in (1, True):
            raise ValueError(f"'{key}' {value!r} is not supported for a row; leave the row or the key out")
    refused = (*_AMBIGUOUS, "input_ids", "attention_mask", "assistant_masks", "completion_mask", "prompt_ids")
    for key in refused:
        if key not in uses and row.get(key) is not None:
            raise ValueError(f"'{key}' is not supported: rows are texts or messages; leave it out")
    for key in (*_MEDIA, "functions"):
        if key not in uses and row.get(key):
            remedy = "write tools" if key == "functions" else "only text can be learned"
            raise ValueError(f"'{key}' is not supported: {remedy}")


def must_be_named(message: Mapping[str, Any]) -> list[str]:
    """Keys of a message that hold something to learn, beside its content."""
    return sorted(key for key in _TO_LEARN if message.get(key))
