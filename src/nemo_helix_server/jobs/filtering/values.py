"""Values of a job's spec by their paths, as the index of the lists keeps them.

The index has the plain values of objects within objects: texts, numbers, truth values. Lists and null are not
in it, nor what is longer than an entry may be; conditions about those are answered from the spec itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_helix_server.jobs.filtering.tree import Scalar

MOST = 500
"""Values of one spec; one that has more is not in the index at all."""
_LONGEST = 200
"""Characters of a path or of a value."""


def indexed(spec: Mapping[str, Any]) -> dict[str, str] | None:
    """The entries of a spec by path (without ``spec.``); None when they are too many."""
    found: dict[str, str] = {}
    for path, value in _leaves(spec):
        entry = entry_of(value)
        if entry is not None and is_path(path):
            found[path] = entry
            if len(found) > MOST:
                return None
    return found


def is_path(path: str) -> bool:
    """Whether the value at a path may be in the index: not for parts of lists."""
    return len(path) <= _LONGEST and not any(part.isdecimal() for part in path.split("."))


def entry_of(value: Scalar) -> str | None:
    """A value as its entry, equal for equal values of one kind; None for one that is not in the index."""
    if isinstance(value, str):
        return f"t:{value}" if len(value) <= _LONGEST and "\0" not in value else None
    if isinstance(value, bool):
        return f"b:{value}"
    if isinstance(value, int | float):
        return f"n:{float(value) + 0.0!r}"
    return None


def _leaves(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    waiting: list[tuple[str, Mapping[str, Any]]] = [("", spec)]
    while waiting:
        head, item = waiting.pop()
        for key, value in item.items():
            if "." in key:
                continue  # no path leads there
            if isinstance(value, Mapping):
                waiting.append((f"{head}{key}.", value))
            else:
                yield head + key, value
