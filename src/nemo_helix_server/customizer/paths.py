"""Dotted paths into specs: what was set, what is there, and putting something else there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel


def given(model: BaseModel, where: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of every field that somebody set, those of inner models included; blocks first."""
    for name in type(model).model_fields:
        if name not in model.model_fields_set:
            continue
        path, value = f"{where}.{name}" if where else name, getattr(model, name)
        yield path, value
        if isinstance(value, BaseModel):
            yield from given(value, path)


def look(spec: Mapping[str, Any], path: str) -> Any:
    """The value at a path; `None` where nothing does."""
    found: Any = spec
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def is_there(spec: Mapping[str, Any], path: str) -> bool:
    """Whether the object that a path leads into exists."""
    *parents, _ = path.split(".")
    return not parents or isinstance(look(spec, ".".join(parents)), Mapping)


def put(spec: dict[str, Any], path: str, value: Any) -> None:
    """Write a value; the objects on the way must be there."""
    *parents, last = path.split(".")
    inner = spec
    for part in parents:
        inner = inner[part]
    inner[last] = value
