"""The configuration of a job by its dotted keys, and where that of another one differs. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    mine = dict(flat(spec))
    if other is None:
        return [SpecEntry(key, _text(value)) for key, value in mine.items()][:MOST_ENTRIES]
    theirs = dict(flat(other))
    found = []
    for key in [*mine, *(key for key in theirs if key not in mine)]:
        one, two = mine.get(key, _MISSING), theirs.get(key, _MISSING)
        found.append(SpecEntry(key, _text(one), _text(two), _exact(one) != _exact(two)))
    return found[:MOST_ENTRIES]


def differing(
    documents: Sequence[Mapping[str, Any]],
) -> tuple[list[tuple[str, list[str | None]]], int]:
    """The keys whose values are not the same in all documents, with each one's value; and how many are."""
    leaves = [dict(flat(document)) for document in documents]
    keys = list(dict.fromkeys(key for one in leaves for key in one))
    found = []
    for key in keys:
        values = [one.get(key, _MISSING) for one in leaves]
        if len({_exact(value) for value in values}) > 1:
            found.append((key, [_text(value) for value in values]))
    return found[:MOST_ENTRIES], len(keys) - len(found)


def flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a document by their dotted keys; an empty object or list is one."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from flat(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and value and any(isinstance(inner, Mapping | list) for inner in value):
        for number, inner in enumerate(value):
            yield from flat(inner, f"{key}[{number}]")
    else:
        yield key, value


def _exact(value: Any) -> str | None:
    return None if value is _MISSING else json.dumps(value)


def _text(value: Any) -> str | None:
    if value is _MISSING:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
