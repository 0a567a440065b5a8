"""Prompt templates: text with ``{field}`` placeholders, ``{{`` and ``}}`` for braces."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from typing import Any

Segment = tuple[str, str | None]
"""Literal text, and the field that follows it."""
_IN_BRACES = re.compile(r"\{\s*(\w+)\s*\}")


def check_template(template: str) -> list[Segment]:
    """Cut a template into segments; `ValueError` with a phrase for one that cannot be used."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{error}; write {{{{ and }}}} for literal braces") from None
    segments: list[Segment] = []
    for literal, name, spec, conversion in parsed:
        if name is not None and (not name.isidentifier() or spec or conversion):
            written = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            raise ValueError(f"'{{{written}}}' is not a field name; write {{{{ and }}}} for literal braces")
        segments.append((literal, name))
    return segments


def doubled_fields(segments: list[Segment]) -> frozenset[str]:
    """Names in double braces, as other tools write fields: here they stand for the words themselves."""
    literals = "".join(literal + ("" if name is None else "\0") for literal, name in segments)
    return frozenset(_IN_BRACES.findall(literals))


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
