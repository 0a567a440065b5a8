"""Rows of a prompt and what follows it: an answer, or two of which the first is preferred.

Many data sets write whole conversations as answers. Their common beginning is the prompt; nothing is learned
twice.
"""

from __future__ import annotations

from typing import Any

from nemo_engines.data.messages import Message, check_learnable, check_messages, conversation

Row = dict[str, Any]
_ALIASES = {"chosen_response": "chosen", "rejected_response": "rejected"}


def prompt_completion(row: Row) -> Row:
    """A row with ``prompt`` and ``completion``, both texts or both lists of messages."""
    if not isinstance(row.get("completion"), list) or isinstance(row.get("prompt"), str):
        return _texts(row, ("prompt", "completion"))
    prompt = check_messages(row.get("prompt"), "prompt")
    found = conversation(row["completion"], "completion")
    before = _repeated(prompt, found.messages)
    _check_answer(found.messages[before:], "completion")
    check_learnable(found, "completion", before)
    learned = [index for index in range(before, len(found.messages)) if index not in found.unlearned]
    if not any(found.messages[index]["role"] == "assistant" for index in learned):
        raise ValueError("'completion' has no message of the assistant that is to be learned")
    unlearned = [len(prompt) + index - before for index in found.unlearned if index >= before]
    return {
        "prompt": prompt,
        "completion": found.messages[before:],
        **({"unlearned": unlearned} if unlearned else {}),
    }


def preference(row: Row) -> Row:
    """A row with ``prompt``, ``chosen`` and ``rejected``, all texts or all lists of messages.

    Where both answers are whole conversations, ``prompt`` may be left out, or be the text of their question.
    """
    row = _renamed(row)
    answers = [name for name in ("chosen", "rejected") if isinstance(row.get(name), list)]
    if not answers:
        return _differing(_texts(row, ("prompt", "chosen", "rejected")))
    chosen, rejected = (check_messages(row.get(name), name) for name in ("chosen", "rejected"))
    given = row.get("prompt")
    if isinstance(given, list):
        prompt = check_messages(given, "prompt")
        ends = [_repeated(prompt, chosen), _repeated(prompt, rejected)]
    else:
        prompt = _beginning(chosen, rejected)
        _check_question(given, prompt)
        ends = [len(prompt)] * 2
    made = {"prompt": prompt, "chosen": chosen[ends[0] :], "rejected": rejected[ends[1] :]}
    for name in ("chosen", "rejected"):
        _check_answer(made[name], name)
    return _differing(made)


def _differing(made: Row) -> Row:
    if made["chosen"] == made["rejected"]:
        raise ValueError("'chosen' and 'rejected' are the same, so there is nothing to prefer")
    return made


def _renamed(row: Row) -> Row:
    for alias, name in _ALIASES.items():
        if alias in row and name in row:
            raise ValueError(f"has both '{alias}' and '{name}'; leave one out")
    return {_ALIASES.get(name, name): value for name, value in row.items()}


def _beginning(chosen: list[Message], rejected: list[Message]) -> list[Message]:
    """What both conversations begin with."""
    most = min(len(chosen), len(rejected)) - 1
    count = next((index for index in range(most) if chosen[index] != rejected[index]), most)
    while count and chosen[count]["role"] != "assistant":
        count -= 1
    if count <= 0:
        raise ValueError(
            "'chosen' and 'rejected' must be answers to a 'prompt' of messages, or whole conversations that "
            "begin with the same messages"
        )
    return chosen[:count]


def _check_question(given: object, prompt: list[Message]) -> None:
    if given is None:
        return
    asked = [message.get("content") for message in prompt]
    if not isinstance(given, str) or given.strip() not in [
        text.strip() for text in asked if isinstance(text, str)
    ]:
        raise ValueError(
            "'prompt' is not one of the messages that 'chosen' and 'rejected' begin with; leave it out"
        )


def _repeated(prompt: list[Message], answer: list[Message]) -> int:
    """How many messages at the beginning of an answer are the prompt once more."""
    return len(prompt) if answer[: len(prompt)] == prompt and len(answer) > len(prompt) else 0


def _check_answer(messages: list[Message], name: str) -> None:
    if messages[0]["role"] != "assistant":
        raise ValueError(
            f"'{name}' must begin with the assistant's answer or with all of 'prompt', not with a message of "
            f"the role {messages[0]['role']!r}"
        )


def _texts(row: Row, names: tuple[str, ...]) -> Row:
    prompt, *answers = names
    if any(isinstance(row.get(name), list) for name in names):
        quoted = " and ".join(map(repr, names))
        raise ValueError(f"{quoted} must be all texts or all lists of messages")
    made = {name: text(row, name) for name in names}
    asked = made[prompt].strip()
    if " " in asked and all(made[name].lstrip().startswith(asked) for name in answers):
        twice = f"{' and '.join(map(repr, answers))} {'begin' if answers[1:] else 'begins'}"
        raise ValueError(f"{twice} with the whole prompt, which would be learned twice; take it out of them")
    return made


def text(row: Row, name: str) -> str:
    """The text in a field; `ValueError` with a phrase for what is none."""
    value = row.get(name)
    if value is None:
        raise ValueError(f"lacks '{name}'")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"'{name}' must be a text that is not empty")
    return value
