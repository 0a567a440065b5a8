"""Prompt templates: text with ``{field}`` placeholders, ``{{`` and ``}}`` for braces."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from typing import Any

Segment = tuple[str, str | None]
"""Literal text, and the field that follows it."""


def check_template(template: str) -> list[Segment]:
    """Cut a template into segments; `ValueError` with a phrase for one that cannot be used."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{error}; write {{{{ and }}}} for literal braces") from None
    segments: list[Segment] = []
    for literal, name, spec, conversion in parsed:
        if name is not None and (not name.isidentifier() or spec or conversion):
            raise ValueError(f"'{{{name}}}' is no field name; write {{{{ and }}}} for literal braces")
        segments.append((literal, name))
    return segments


def fill(segments: list[Segment], row: Mapping[str, Any]) -> str:
    """The text for one row; `KeyError` with the name of a field that is absent or null."""
    parts: list[str] = []
    for literal, name in segments:
        parts.append(literal)
        if name is not None:
            value = row.get(name)
            if value is None:
                raise KeyError(name)
            parts.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return "".join(parts)
