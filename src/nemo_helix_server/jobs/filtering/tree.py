"""The tree of a filter, and which fields may be in it with which values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import MalformedRequestError
from nemo_runs.clock import moment

DOCUMENTS = ("spec", "custom_fields", "ownership")
"""Columns into which a field may lead: ``spec.schedule.epochs``."""
MOMENTS = ("created_at", "updated_at")
TEXTS = (
    "id",
    "workspace",
    "name",
    "source",
    "project",
    "description",
    "fileset",
    "output_location",
    "reason",
    "attempt_id",
    "created_by",
)
_PART = re.compile(r"[A-Za-z0-9_@+-]{1,100}")
_DEEPEST = 20
Scalar = str | int | float | bool | None


class Operator(StrEnum):
    """How a field is compared with a value."""

    EQUAL = "$eq"
    LIKE = "$like"
    LESS = "$lt"
    LESS_OR_EQUAL = "$lte"
    GREATER = "$gt"
    GREATER_OR_EQUAL = "$gte"
    IN = "$in"
    NOT_IN = "$nin"
    CONTAINS = "$contains"
    ELEMENT = "$elemMatch"
    HAS_KEY = "$hasKey"
    STARTS_WITH = "$startsWith"
    ENDS_WITH = "$endsWith"
    EXISTS = "$exists"


RANGES = frozenset({Operator.LESS, Operator.LESS_OR_EQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL})
_SETS = frozenset({Operator.EQUAL, Operator.IN, Operator.NOT_IN})


@dataclass(frozen=True, slots=True)
class Compare:
    """A field, an operator, a value; ``$in`` and ``$nin`` have a tuple of values."""

    field: str
    """A column's name, or ``spec.`` and a path into the job's spec."""
    operator: Operator
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; none: everything passes."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Tree


Tree = Compare | AllOf | AnyOf | Not
EVERYTHING = AllOf(())


def all_of(trees: Sequence[Tree]) -> Tree:
    """One tree that holds where all of them do."""
    return trees[0] if len(trees) == 1 else AllOf(tuple(trees))


def any_of(trees: Sequence[Tree]) -> Tree:
    """One tree that holds where one of them does."""
    return trees[0] if len(trees) == 1 else AnyOf(tuple(trees))


def compare(field: str, operator: Operator, value: Any) -> Compare:
    """A comparison whose field and value are allowed; raises `MalformedRequestError` saying what would be."""
    wanted = tuple(value) if isinstance(value, list | tuple) else value
    if operator in {Operator.IN, Operator.NOT_IN} and not isinstance(wanted, tuple):
        wanted = (wanted,)
    _check_scalars(field, operator, wanted)
    if operator is Operator.EXISTS:
        wanted = _truth(field, wanted)
    elif field == "status":
        _check_status(operator, wanted)
    elif field in MOMENTS:
        wanted = _moment(field, operator, wanted)
    elif field in TEXTS:
        wanted = _texts(wanted)
    if field not in {"status", *MOMENTS, *TEXTS}:
        _check_path(field)
    return Compare(field, operator, wanted)


def _check_path(field: str) -> None:
    root, dot, rest = field.partition(".")
    parts = rest.split(".")
    if not dot or root not in DOCUMENTS:
        known = ", ".join(sorted({"status", *MOMENTS, *TEXTS}))
        raise MalformedRequestError(
            f"jobs cannot be filtered by '{field[:100]}'; they can by {known} and spec.<path>"
        )
    if len(parts) > _DEEPEST or not all(_PART.fullmatch(part) for part in parts):
        raise MalformedRequestError(
            f"the path '{field[:100]}' must be names of letters, digits, _ and -, joined by dots"
        )


def _check_scalars(field: str, operator: Operator, value: Any) -> None:
    several = isinstance(value, tuple)
    if several and operator not in {Operator.IN, Operator.NOT_IN, Operator.ELEMENT}:
        raise MalformedRequestError(f"{operator} of '{field[:100]}' takes one value, not a list")
    for one in value if several else (value,):
        if one is not None and not isinstance(one, str | int | float | bool):
            raise MalformedRequestError(
                f"{operator} of '{field[:100]}' takes text, a number, true, false or null"
            )
        if isinstance(one, str) and ("\0" in one or _broken(one)):
            raise MalformedRequestError(f"the value of '{field[:100]}' is not valid text")
        if isinstance(one, int) and not -(2**63) <= one < 2**63:
            raise MalformedRequestError(f"the number for '{field[:100]}' is too large")


def _broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _truth(field: str, value: Any) -> bool:
    if value in {True, "true", "True", "1"}:
        return True
    if value in {False, "false", "False", "0"}:
        return False
    raise MalformedRequestError(f"$exists of '{field[:100]}' takes true or false")


def _check_status(operator: Operator, value: Any) -> None:
    if operator not in _SETS:
        raise MalformedRequestError(f"a status can be compared by $eq, $in and $nin, not by {operator}")
    known = {str(status) for status in HelixJobStatus}
    for one in value if isinstance(value, tuple) else (value,):
        if one not in known:
            raise MalformedRequestError(
                f"there is no status '{str(one)[:100]}'; there are {', '.join(sorted(known))}"
            )


def _moment(field: str, operator: Operator, value: Any) -> int:
    if operator not in RANGES:
        raise MalformedRequestError(f"{field} can be compared by $lt, $lte, $gt and $gte, not by {operator}")
    try:
        return moment(value)
    except (TypeError, ValueError, OverflowError) as error:
        found = str(value)[:100]
        message = (
            f"{field} is compared with an ISO 8601 time such as 2026-01-01T00:00:00Z, not with '{found}'"
        )
        raise MalformedRequestError(message) from error


def _texts(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_texts(one) for one in value)
    return value if value is None or isinstance(value, str) else str(value)
