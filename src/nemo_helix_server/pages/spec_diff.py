"""The configuration of a job by its dotted keys, and where that of another one differs. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MISSING = object()
MOST_ENTRIES = 2000


@dataclass(frozen=True, slots=True)
class SpecEntry:
    """One key; values are JSON text, `None` where a job does not have it."""

    key: str
    value: str | None
    other: str | None = None
    differs: bool = False


def entries(spec: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> list[SpecEntry]:
    """Every key of a configuration, in order; with another one, of both."""
    mine = dict(_flat(spec))
    if other is None:
        return [SpecEntry(key, _text(value)) for key, value in mine.items()][:MOST_ENTRIES]
    theirs = dict(_flat(other))
    found = []
    for key in [*mine, *(key for key in theirs if key not in mine)]:
        one, two = mine.get(key, _MISSING), theirs.get(key, _MISSING)
        found.append(SpecEntry(key, _text(one), _text(two), _exact(one) != _exact(two)))
    return found[:MOST_ENTRIES]


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a document; an empty object or list is one."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and value and any(isinstance(inner, Mapping | list) for inner in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{key}[{number}]")
    else:
        yield key, value


def _exact(value: Any) -> str | None:
    return None if value is _MISSING else json.dumps(value)


def _text(value: Any) -> str | None:
    if value is _MISSING:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
