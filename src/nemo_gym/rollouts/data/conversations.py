"""Conversations that rows bring along, in the ways data sets write them, as messages to be answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nemo_gym.errors import DataError
from nemo_runs import strict_json

Message = dict[str, Any]
_SPEAKERS: Final = {
    "system": "system",
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "model", "chatgpt", "bot"), "assistant"),
}
"""Who speaks, in the words of data sets with ``from`` and ``value``."""


def _messages_of(value: Any, name: str) -> list[Message]:
    """The messages in a field: a list with ``role`` and ``content``, or with ``from`` and ``value``; or text.

    A list may be written as JSON in a text, as tables have it. `DataError` with a phrase for what is none.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = strict_json.loads(value)
        except ValueError as error:
            raise DataError(
                f"the field {name} begins like a list of messages and is not JSON: {error}"
            ) from None
    if isinstance(value, str) and value.strip():
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value:
        raise DataError(f"the field {name} must hold a conversation: a text, or a list of messages")
    return [_message(message, name, number) for number, message in enumerate(value, 1)]


def conversation_of(value: Any, name: str) -> list[Message]:
    """The messages in a field, as `_messages_of` reads them, to be answered.

    `DataError` with a phrase for what is none, and for one that ends with the assistant's answer: there would
    be nothing left to ask.
    """
    messages = _messages_of(value, name)
    if messages[-1].get("role") == "assistant":
        raise DataError(
            f"the conversation in {name} ends with an answer of the assistant; leave that out, or say "
            "prompt.ends_with_answer: true where it is the expected one"
        )
    return messages


def without_answer(value: Any, name: str) -> tuple[list[Message], str]:
    """The messages in a field before the last one, which is the expected answer, and its text.

    `DataError` with a phrase for a conversation that does not end so, and for one that `conversation_of`
    refuses.
    """
    messages = _messages_of(value, name)
    text = text_of(messages[-1].get("content")) if messages[-1].get("role") == "assistant" else ""
    if not text.strip():
        raise DataError(f"the conversation in {name} does not end with an answer of the assistant")
    if len(messages) == 1:
        raise DataError(f"the conversation in {name} is an answer alone, and nothing is asked")
    return messages[:-1], text


def text_of(content: Any) -> str:
    """The text of a message; of several parts all of their texts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def turns_of(row: Mapping[str, Any], name: str) -> list[str]:
    """What the user says one after the other: a list of texts, or of messages, in a field.

    Answers among the messages are left out, since the model gives its own. `DataError` with a phrase.
    """
    found = row.get(name)
    if not isinstance(found, list) or not found:
        raise DataError(f"the field {name} must hold what the user says, a list of texts")
    turns = []
    for number, said in enumerate(found, 1):
        speaker = speaker_of(said) if isinstance(said, Mapping) else "user"
        if speaker == "assistant":
            continue
        text = said.get("content", said.get("value")) if isinstance(said, Mapping) else said
        if speaker != "user" or not isinstance(text, str) or not text.strip():
            raise DataError(f"turn {number} of {name} must be a text that says something")
        turns.append(text)
    if not turns:
        raise DataError(f"the field {name} must hold what the user says, and all in it are answers")
    return turns


def speaker_of(message: Mapping[str, Any]) -> str | None:
    """Who says a message, as the chat API names them; the user where it does not say."""
    said = message.get("role", message.get("from", "user"))
    return _SPEAKERS.get(str(said).lower())


def with_system(messages: list[Message], text: str | None) -> list[Message]:
    """The messages with ``text`` as their instructions, in place of those that they begin with."""
    if text is None:
        return messages
    rest = messages[1:] if messages[0].get("role") in ("system", "developer") else messages
    return [{"role": "system", "content": text}, *rest]


def _message(message: Any, name: str, number: int) -> Message:
    if not isinstance(message, Mapping):
        raise DataError(f"message {number} of {name} is not an object")
    if "from" in message and "value" in message:
        role = _SPEAKERS.get(str(message["from"]).lower())
        if role is None:
            raise DataError(
                f"message {number} of {name} is from {message['from']!r}, a speaker that is not known"
            )
        return {"role": role, "content": message["value"]}
    return {key: value for key, value in message.items() if value is not None or key == "content"}
