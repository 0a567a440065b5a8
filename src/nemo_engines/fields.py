"""Reading a JSON object into frozen dataclasses, strictly: unknown names and wrong kinds are refused by
path."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from nemo_engines.errors import BadSpecError
from nemo_runs.suggestions import suggestion

T = TypeVar("T")

_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "an object"}


def read(cls: type[T], value: object, where: str = "") -> T:
    """Build ``cls`` from a JSON object; `BadSpecError` names the dotted path of what is not right."""
    if not isinstance(value, Mapping):
        raise BadSpecError(f"{where or 'the spec'} must be an object, not {_shown(value)}")
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in value:
        if name not in fields:
            raise BadSpecError(_unknown(str(name), where, list(fields)))
    arguments = {
        name: convert(hints[name], value[name], _join(where, name)) for name in fields if name in value
    }
    missing = [name for name, field in fields.items() if name not in arguments and _required(field)]
    if missing:
        raise BadSpecError(f"{_join(where, missing[0])} is missing")
    return cls(**arguments)


def convert(hint: Any, value: object, where: str) -> Any:
    """One value as its annotation wants it."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(hint), value, where)
    if origin is Literal:
        if value not in get_args(hint) or isinstance(value, bool):
            allowed = ", ".join(str(item) for item in get_args(hint))
            raise BadSpecError(f"{where} must be one of {allowed}, not {_shown(value)}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise BadSpecError(f"{where} must be a list, not {_shown(value)}")
        item = get_args(hint)[0]
        return tuple(convert(item, part, f"{where}[{index}]") for index, part in enumerate(value))
    if dataclasses.is_dataclass(hint):
        return read(hint, value, where)  # type: ignore[arg-type]
    return _plain(origin or hint, value, where)


def _one_of(hints: tuple[Any, ...], value: object, where: str) -> Any:
    if value is None and type(None) in hints:
        return None
    [hint] = [hint for hint in hints if hint is not type(None)]
    return convert(hint, value, where)


def _plain(hint: Any, value: object, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise BadSpecError(f"{where} must be {_KINDS.get(hint, hint)}, not {_shown(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadSpecError(f"{where} must be a finite number, not {_shown(value)}")
    return value


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _unknown(name: str, where: str, known: list[str]) -> str:
    hint = suggestion(name, known) or f"; known are {', '.join(known)}"
    return f"{_join(where, name)} is not a field of the engine spec{hint}"


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
