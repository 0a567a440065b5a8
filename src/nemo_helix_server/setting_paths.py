"""Settings by the path of their keys: putting a value there, and naming the one that is wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from nemo_runs.suggestions import suggestion

_MAPPING = "must be a mapping of keys to values"
_KINDS = {
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be text",
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), _MAPPING),
}
"""What is said of a value of another kind, by the type of the validator's error: people write YAML."""
_NO_SUCH_KEY = "there is no such key"


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


class WrongValueError(ValueError):
    """Something below a setting is wrong whose keys are known elsewhere, such as those of an executor."""

    def __init__(self, path: tuple[str, ...], wrong: str) -> None:
        super().__init__(wrong)
        self.path = path

    @classmethod
    def first_of(cls, error: ValidationError, model: type[BaseModel]) -> WrongValueError:
        """The first thing that is wrong with a value of a model."""
        path, wrong = _first(error, model)
        return cls(path, wrong)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where settings came from, to name the one that has to be changed."""

    file: Path | None
    variables: Mapping[tuple[str, ...], str]
    """The variables that are set, by the paths that they set."""
    options: Collection[str]
    """The settings that the command line has given."""

    def of(self, path: tuple[str, ...]) -> str:
        """Where a setting, or one that it is part of, came from."""
        if path and path[0] in self.options:
            return "the command line"
        names = [name for whole, name in self.variables.items() if path[: len(whole)] == whole]
        return next(iter(names), None) or str(self.file or "the settings")


def sentence(error: ValidationError, model: type[BaseModel], sources: Sources) -> str:
    """The first thing that is wrong: which setting, where it came from, and what would be right."""
    path, wrong = _first(error, model)
    key, where = ".".join(path) or "the whole", sources.of(path)
    if wrong.startswith(_NO_SUCH_KEY):
        return f"there is no setting '{key}' (from {where}){wrong.removeprefix(_NO_SUCH_KEY)}"
    return f"the setting '{key}' (from {where}) is wrong: {wrong}"


def _first(error: ValidationError, model: type[BaseModel]) -> tuple[tuple[str, ...], str]:
    """The path of the first thing that is wrong, and what is wrong with it."""
    found = error.errors(include_url=False)
    first = found[0]
    if first["type"] == "missing":  # it may be there, and be written wrongly
        first = next((one for one in found if one["type"] == "extra_forbidden"), first)
    path, cause = tuple(map(str, first["loc"])), first.get("ctx", {}).get("error")
    if isinstance(cause, WrongValueError):
        return (*path, *cause.path), str(cause)
    if first["type"] == "extra_forbidden":
        keys = _keys_at(model, path[:-1])
        there = f"; there are {', '.join(keys)}" if keys else ""
        return path, f"{_NO_SUCH_KEY}{suggestion(path[-1], keys) or there}"
    if isinstance(cause, ValueError):
        return path, str(cause)
    return path, _KINDS.get(first["type"], f"{first['msg'][:1].lower()}{first['msg'][1:]}")


def _keys_at(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """The keys that there are where a path leads, or none where that is not known."""
    found: Any = model
    for part in path:
        if part.isdigit():
            continue  # a list, of which the type is that of its members
        field = getattr(found, "model_fields", {}).get(part)
        kinds = [field.annotation, *get_args(field.annotation)] if field else []
        found = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    return list(getattr(found, "model_fields", {}))
