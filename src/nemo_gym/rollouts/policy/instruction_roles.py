"""How a server wants instructions: as ``system`` or ``developer``, or before the user's words. Pure."""

from __future__ import annotations

from typing import Any, Literal

from nemo_gym.types import Row

SystemRole = Literal["system", "developer", "user"]
"""``system`` and ``developer`` rename the role of such messages; ``user`` puts their text before what the
user says next, for models whose template knows neither."""

_INSTRUCTIONS = frozenset({"system", "developer"})


def with_system_role(messages: Any, role: SystemRole | None) -> Any:
    """The messages with every instruction in that role; the very messages when ``role`` is ``None``."""
    if role is None or not isinstance(messages, list):
        return messages
    if role != "user":
        return [{**m, "role": role} if m.get("role") in _INSTRUCTIONS else m for m in messages]
    found: list[Row] = []
    waiting: list[str] = []
    for message in messages:
        if message.get("role") in _INSTRUCTIONS:
            waiting.append(_text(message.get("content")))
        elif waiting and message.get("role") == "user":
            found.append({**message, "content": _after("\n\n".join(waiting), message.get("content"))})
            waiting = []
        else:
            found.append(message)
    if waiting:
        found.append({"role": "user", "content": "\n\n".join(waiting)})
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or ())


def _after(instructions: str, content: Any) -> Any:
    if isinstance(content, list):
        kind = "input_text" if any(str(part.get("type")).startswith("input_") for part in content) else "text"
        return [{"type": kind, "text": f"{instructions}\n\n"}, *content]
    return f"{instructions}\n\n{content}"
