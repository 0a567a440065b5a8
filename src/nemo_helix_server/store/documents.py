"""JSON as it is kept: quick where that is possible, and never an error for what was once accepted."""

from __future__ import annotations

import json
from typing import Any

import orjson


def dumps(value: Any) -> str:
    """A value as JSON text."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # numbers beyond 64 bits
        return json.dumps(value)


def loads(text: str | bytes) -> Any:
    """A value from JSON text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)
