"""What a model said, in the form in which bfcl-eval's checkers take it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nemo_gym.types import Row, output_text

FIELD = "bfcl"
"""Of a row: what its checker needs, and of a conversation its turns."""
SAID = "bfcl_said"
"""Of a result: what was said in each turn of a conversation, as `said_in` gives it."""
BROKEN = "bfcl_broken"
"""Of a result: why the world of a conversation broke, if it did."""

Said = list[dict[str, str]] | str
"""Calls, each ``{name: arguments as JSON}``, or a text that holds none."""


def said_in(response: Row) -> Said:
    """The calls of an answer, else its text."""
    calls = [item for item in response.get("output") or () if item.get("type") == "function_call"]
    if not calls:
        return output_text(response)
    return [{str(item.get("name")): _as_text(item.get("arguments"))} for item in calls]


def shown(said: Said | Sequence[Sequence[Said]]) -> str | None:
    """The same for a person."""
    if isinstance(said, str):
        return said.strip() or None
    return json.dumps(said, ensure_ascii=False)


def _as_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
