"""What a list may be filtered by: one tree, whatever spelling it came in.

filter[status]=error&filter[created_at][gte]=2026-01-01      brackets
filter={"status": {"$in": ["error", "paused"]}}              JSON
filter=name~"llama" AND status:"active"                      text
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from nemo_helix_server.errors import MalformedRequestError
from nemo_helix_server.jobs.filtering import json
from nemo_helix_server.jobs.filtering.text import tree as tree_of_text
from nemo_helix_server.jobs.filtering.tree import (
    DOCUMENTS,
    EVERYTHING,
    AllOf,
    AnyOf,
    Compare,
    Not,
    Operator,
    Scalar,
    Tree,
    all_of,
)

__all__ = [
    "DOCUMENTS",
    "EVERYTHING",
    "AllOf",
    "AnyOf",
    "Compare",
    "Not",
    "Operator",
    "Parsed",
    "Scalar",
    "Tree",
    "parse",
]

_LONGEST = 16_384


class Parsed(NamedTuple):
    """A filter, and the same as it was given."""

    tree: Tree
    echo: Any


@dataclass(frozen=True, slots=True)
class _Bracket:
    path: tuple[str, ...]
    value: str


def parse(pairs: Iterable[tuple[str, str]]) -> Parsed:
    """The filter of a query string: its ``filter`` and ``filter[…]`` parameters, which all have to hold.

    Raises `MalformedRequestError` with one sentence about the first thing that is wrong.
    """
    trees: list[Tree] = []
    echo: dict[str, Any] = {}
    whole: Any = None
    for key, value in pairs:
        if len(value) > _LONGEST:
            raise MalformedRequestError(f"the filter is longer than {_LONGEST} characters")
        if key == "filter":
            tree, whole = _whole(value)
            trees.append(tree)
        else:
            bracket = _Bracket(_path(key), value)
            trees.append(_bracketed(bracket))
            _remember(echo, bracket)
    if echo and whole is not None:
        whole = {"$and": [whole, echo]} if isinstance(whole, dict) else echo
    return Parsed(all_of(trees), whole if whole is not None else echo or None)


def _whole(text: str) -> tuple[Tree, Any]:
    stripped = text.strip()
    if not stripped:
        return EVERYTHING, None
    if stripped.startswith("{"):
        document = json.load(stripped)
        return json.tree(document), document
    return tree_of_text(stripped), stripped


def _path(key: str) -> tuple[str, ...]:
    """The parts of ``filter[a][b]``."""
    inner = key.removeprefix("filter")
    if not (inner.startswith("[") and inner.endswith("]")):
        raise MalformedRequestError(f"the parameter '{key[:100]}' is not a filter; write filter[<field>]")
    parts = tuple(inner[1:-1].split("]["))
    if any("[" in part or "]" in part or not part for part in parts):
        raise MalformedRequestError(
            f"the brackets of '{key[:100]}' do not match; write filter[<field>][<operator>]"
        )
    return parts


def _bracketed(bracket: _Bracket) -> Tree:
    """A bare value is equality; the last part may name an operator, with or without its ``$``."""
    *front, last = bracket.path
    operator = json.OPERATORS.get(last if last.startswith("$") else f"${last}")
    if front and operator is not None:
        name = ".".join(front)
        if operator == "$not":
            return Not(json.compare(name, Operator.EQUAL, bracket.value))
        several = operator in {Operator.IN, Operator.NOT_IN}
        value = [part.strip() for part in bracket.value.split(",")] if several else bracket.value
        return json.compare(name, Operator(operator), value)
    if last.startswith("$"):
        raise MalformedRequestError(
            f"there is no operator '{last[:100]}'; there are {json.known_operators()}"
        )
    return json.compare(".".join(bracket.path), Operator.EQUAL, bracket.value)


def _remember(echo: dict[str, Any], bracket: _Bracket) -> None:
    place = echo
    for part in bracket.path[:-1]:
        inner = place.get(part)
        if not isinstance(inner, dict):
            inner = {} if inner is None else {"eq": inner}
            place[part] = inner
        place = inner
    place[bracket.path[-1]] = bracket.value
