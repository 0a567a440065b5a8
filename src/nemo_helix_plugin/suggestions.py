"""What somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel


def field_like(model: type[BaseModel], name: str) -> str | None:
    """A field of a model, or of the models in it, whose name is close to a name that is none."""
    known = sorted(set(_names(model.model_json_schema())))
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def _names(schema: dict[str, Any]) -> Iterator[str]:
    for part in (schema, *schema.get("$defs", {}).values()):
        yield from part.get("properties", {})
