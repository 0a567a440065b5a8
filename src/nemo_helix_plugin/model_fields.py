"""The fields of data models: which one may have been meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from nemo_runs import suggestions

_DEEPEST = 8


def field_suggestion(model: type[BaseModel], name: str) -> str:
    """`suggestions.did_you_mean` a field of a model, or of the models in it, for an unknown name.

    A field of exactly this name is elsewhere, so it is given with its path.
    """
    schema = model.model_json_schema()
    known: dict[str, str] = {}
    for path in _paths(schema, schema.get("$defs", {})):
        known.setdefault(path[-1], ".".join(path))
    near = suggestions.nearest(name, sorted(known))
    return suggestions.did_you_mean(known[name] if near == name else near)


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
