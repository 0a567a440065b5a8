"""What somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

_DEEPEST = 8


def field_like(model: type[BaseModel], name: str) -> str | None:
    """A field of a model, or of the models in it, whose name is close to a name that is none.

    A field of exactly this name stands elsewhere, so it is given with its path.
    """
    schema = model.model_json_schema()
    known: dict[str, str] = {}
    for path in _paths(schema, schema.get("$defs", {})):
        known.setdefault(path[-1], ".".join(path))
    like = next(iter(difflib.get_close_matches(name, sorted(known), n=1)), None)
    return known[name] if like == name else like


def _paths(schema: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The paths of all fields, the shortest first."""
    waiting: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), schema)]
    for path, part in waiting:
        for field, inner in part.get("properties", {}).items():
            here = (*path, field)
            yield here
            if len(here) < _DEEPEST:
                waiting += [(here, one) for one in _alternatives(inner, models)]


def _alternatives(schema: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The models that a field may have."""
    for word in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(word, ()):
            yield from _alternatives(one, models)
    if "$ref" in schema:
        yield models[schema["$ref"].rpartition("/")[2]]
