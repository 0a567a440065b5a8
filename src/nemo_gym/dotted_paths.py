"""Values within values, named by dotted paths: ``answers.text.0``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at_path(value: Any, path: str, otherwise: Any) -> Any:
    """What is at a path, or ``otherwise``.

    A key that is written as the whole path wins, numbers count the values of a list from 0.
    """
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return otherwise
    return value
