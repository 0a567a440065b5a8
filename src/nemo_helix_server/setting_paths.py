"""Settings by the path of their keys: putting a value there, and naming the one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError


def put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Put a value where a path leads, making the levels in between."""
    for key in path[:-1]:
        inner = values.get(key)
        values[key] = dict(inner) if isinstance(inner, dict) else {}
        values = values[key]
    values[path[-1]] = value


def not_text(error: ValidationError) -> set[tuple[str, ...]]:
    """Paths of values that are something else where text or a path is wanted."""
    found = error.errors(include_url=False, include_input=False)
    return {tuple(map(str, each["loc"])) for each in found if each["type"] in ("string_type", "path_type")}


def sentence(error: ValidationError, file: Path | None, prefix: str) -> str:
    """The first thing that is wrong: which setting, where it came from, and what would be right."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"]) or "the whole"
    variable = prefix + "_".join(str(part) for part in first["loc"]).upper()
    where = f"{file} or {variable}" if file else variable
    if first["type"] == "extra_forbidden":
        return f"there is no setting '{key}' (in {file or 'the settings'})"
    return f"the setting '{key}' (from {where}) is wrong: {first['msg'][:1].lower()}{first['msg'][1:]}"
