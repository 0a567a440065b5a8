"""Rows as other tools have them: what is missing here is named with its place there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]

_ELSEWHERE: Final[Mapping[str, Sequence[str]]] = {
    "messages": ("conversations", "conversation", "dialogue", "dialog", "chat", "turns"),
    "prompt": ("instruction", "question", "query", "input", "problem"),
    "completion": ("output", "response", "answer", "solution", "target"),
    "chosen": ("preferred_output", "preferred", "chosen_answer", "winner"),
    "rejected": ("non_preferred_output", "dispreferred", "rejected_answer", "loser"),
    "text": ("content", "document"),
}
_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
_SHAREGPT: Final = (
    "write 'messages' with 'role' (system, user, assistant) and 'content' for 'from' and 'value' (ShareGPT)"
)


def hint(row: Row, kind: str) -> str:
    """What would be right for a row that was refused, behind a semicolon; empty where nothing is known.

    ``kind``: how the rows are read, as ``data.format`` names it, or ``dpo``.
    """
    found = _of_pairs(row) if kind == "dpo" else _of_answers(row, kind)
    return f"; {found}" if found else ""


def _of_pairs(row: Row) -> str:
    for name in ("chosen", "rejected"):
        if isinstance(row.get(name), Mapping):
            return f"put the message in '{name}' into a list"
    if isinstance(row.get("input"), Mapping) and "preferred_output" in row:
        return "write input.messages as 'prompt', and the two outputs as 'chosen' and 'rejected'"
    if "label" in row and "completion" in row:
        return (
            "answers with a 'label' each (KTO) are not pairs: DPO needs two answers to one prompt in each row"
        )
    if "chosen" in row and "rejected" in row and not _renames(row, ("prompt",)) and "prompt" not in row:
        return "write as 'prompt' what both answers begin with, and take it out of them"
    return _renames(row, ("prompt", "chosen", "rejected"))


def _of_answers(row: Row, kind: str) -> str:
    for name in ("messages", *_ELSEWHERE["messages"]):
        value = row.get(name)
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            if "from" in value[0]:
                return _SHAREGPT
            if name != "messages":
                return f"write 'messages' for '{name}'"
            return _of_roles(value)
    if "chosen" in row and "rejected" in row:
        return "pairs of answers are for DPO"
    if kind == "chat":
        return _renames(row, ("messages",))
    found = _renames(row, ("prompt", "completion"))
    if found and "instruction" in row and str(row.get("input") or "").strip():
        found += ", and put 'input' at the end of 'prompt'"
    return found or _renames(row, ("messages",)) or _renames(row, ("text",))


def _of_roles(messages: Sequence[Any]) -> str:
    roles = [str(message.get("role")) for message in messages if isinstance(message, Mapping)]
    odd = dict.fromkeys(repr(role) for role in roles if role not in _ROLES)
    return f"its roles are {', '.join(odd)}: write system, user, assistant and tool" if odd else ""


def _renames(row: Row, names: Sequence[str]) -> str:
    """Which keys of a row to call otherwise."""
    found = []
    for name in names:
        if row.get(name) is not None:
            continue
        same = next((key for key in row if key != name and key.strip().lower() == name), None)
        other = same or next((key for key in _ELSEWHERE[name] if row.get(key) is not None), None)
        if other is not None:
            found.append(f"'{name}' for '{other}'")
    return f"write {' and '.join(found)}" if found else ""


def check_context(row: Row, kind: str) -> None:
    """`ValueError` for what belongs before the answer, or forbids it, and would not be seen."""
    messages = row.get("messages") if kind == "chat" else row.get("prompt")
    first = messages[0] if isinstance(messages, list) and messages else None
    said = first.get("content") if isinstance(first, Mapping) and first.get("role") == "system" else None
    for name in ("system", "system_prompt"):
        value = row.get(name)
        if isinstance(value, str) and value.strip() and value != said:
            raise ValueError(
                f"'{name}' would not be seen; write it as the first message, of the role system, or leave it "
                "out"
            )
    if isinstance(row.get("history"), list) and row["history"]:
        raise ValueError("'history' would not be seen; write its turns as messages, or leave it out")
    if row.get("label") is False and kind == "prompt_completion":
        raise ValueError("'label' false says that the answer is a bad one (KTO); leave the row out")
