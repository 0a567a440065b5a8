"""What a list may be filtered by: one tree, whatever spelling it came in.

filter[status]=error&filter[created_at][gte]=2026-01-01      brackets
filter={"status": {"$in": ["error", "paused"]}}              JSON
filter=name~"llama" AND status:"active"                      text
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


DOCUMENTS = ("spec", "custom_fields", "ownership")
"""Columns into which a field may lead: ``spec.schedule.epochs``."""
Scalar = str | int | float | bool | None


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
