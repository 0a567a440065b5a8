"""Filters in JSON: ``{"status": {"$in": ["error"]}, "$or": [{…}, {…}]}``."""

from __future__ import annotations

import json
from typing import Any

from nemo_helix_server.errors import MalformedRequestError
from nemo_helix_server.jobs.filtering.tree import EVERYTHING, Not, Operator, Tree, all_of, any_of, compare
from nemo_runs import strict_json

__all__ = ["OPERATORS", "compare", "known_operators", "load", "tree"]

OPERATORS: dict[str, str] = {str(operator): str(operator) for operator in Operator} | {"$not": "$not"}
_LOGICAL = ("$and", "$or", "$not")
_DEEPEST = 30


def known_operators() -> str:
    """The operators, for messages."""
    return ", ".join(sorted({*OPERATORS, *_LOGICAL}))


def load(text: str) -> dict[str, Any]:
    """A filter as it was written; raises `MalformedRequestError` when it is not a JSON object."""
    try:
        document = strict_json.loads(text)
    except json.JSONDecodeError as error:
        raise MalformedRequestError(f"the filter is not JSON: {error}") from error
    except ValueError as error:
        raise MalformedRequestError(f"the filter {error}") from error
    if not isinstance(document, dict):
        raise MalformedRequestError("the filter is not a JSON object")
    return document


def tree(document: Any, depth: int = 0) -> Tree:
    """The tree of a JSON object."""
    if not isinstance(document, dict):
        raise MalformedRequestError("a filter is a JSON object of fields and what they are compared with")
    if depth > _DEEPEST:
        raise MalformedRequestError(f"the filter is nested deeper than {_DEEPEST}")
    logical = [key for key in document if key in _LOGICAL]
    if logical and len(document) > 1:
        raise MalformedRequestError(f"{logical[0]} cannot be combined with other keys; put them inside of it")
    if not document:
        return EVERYTHING
    return all_of([_entry(key, value, depth) for key, value in document.items()])


def _entry(key: str, value: Any, depth: int) -> Tree:
    if key in {"$and", "$or"}:
        if not isinstance(value, list) or not value:
            raise MalformedRequestError(f"{key} takes a list of filters")
        parts = [tree(part, depth + 1) for part in value]
        return all_of(parts) if key == "$and" else any_of(parts)
    if key == "$not":
        return Not(tree(value, depth + 1))
    if key.startswith("$"):
        raise MalformedRequestError(
            f"there is no operator '{key[:100]}' here; there are {', '.join(_LOGICAL)}"
        )
    return _field(key, value, depth)


def _field(name: str, value: Any, depth: int) -> Tree:
    if isinstance(value, list):
        return compare(name, Operator.IN, value)
    if not isinstance(value, dict):
        return compare(name, Operator.EQUAL, value)
    if depth > _DEEPEST or not value:
        raise MalformedRequestError(
            f"the comparison of '{name[:100]}' is empty, or nested deeper than {_DEEPEST}"
        )
    if not any(key.startswith("$") for key in value):
        return all_of([_field(f"{name}.{key}", inner, depth + 1) for key, inner in value.items()])
    return all_of([_operation(name, key, inner, depth) for key, inner in value.items()])


def _operation(name: str, key: str, value: Any, depth: int) -> Tree:
    if key == "$not":
        return Not(_field(name, value, depth + 1))
    if key not in OPERATORS:
        raise MalformedRequestError(f"there is no operator '{key[:100]}'; there are {known_operators()}")
    return compare(name, Operator(key), value)
