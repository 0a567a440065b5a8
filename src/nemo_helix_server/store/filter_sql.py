"""A filter as conditions of a query; both databases answer alike.

Text compares without regard to case where only a part of it is asked for (``$like``, ``$contains``, …). A
value of a document (``spec.schedule.epochs``) that was written as text also finds the number or truth value
it spells, because command lines and query strings have only text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import Float, Text

from nemo_helix_server.jobs.filtering.parse import (
    DOCUMENTS,
    AllOf,
    AnyOf,
    Compare,
    Not,
    Operator,
    Scalar,
    Tree,
)
from nemo_helix_server.jobs.filtering.values import entry_of, is_path
from nemo_helix_server.store import schema
from nemo_runs import strict_json

Condition = ColumnElement[bool]
_LARGEST = 2**63
_ORDER: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.LESS: lambda left, right: left < right,
    Operator.LESS_OR_EQUAL: lambda left, right: left <= right,
    Operator.GREATER: lambda left, right: left > right,
    Operator.GREATER_OR_EQUAL: lambda left, right: left >= right,
}


def conditions(tree: Tree, dialect: str) -> list[Condition]:
    """What must hold of a row of ``jobs``; an empty list for a filter that everything passes."""
    return [] if tree == AllOf(()) else [_condition(tree, dialect)]


def _condition(tree: Tree, dialect: str) -> Condition:
    if isinstance(tree, AllOf):
        return and_(true(), *(_condition(part, dialect) for part in tree.parts))
    if isinstance(tree, AnyOf):
        return or_(false(), *(_condition(part, dialect) for part in tree.parts))
    if isinstance(tree, Not):
        return not_(func.coalesce(_condition(tree.part, dialect), false()))
    root, dot, rest = tree.field.partition(".")
    if dot and root in DOCUMENTS:
        exactly = _in_document(tree, JsonField(root, rest.split("."), dialect))
        wanted = spec_value(tree)
        return exactly if wanted is None else _in_spec(wanted, exactly)
    return _in_column(tree, schema.jobs.c[tree.field], dialect)


class SpecValue(NamedTuple):
    """A condition that the index of values in specs answers: the value at the path is one of them."""

    path: str
    values: tuple[str, ...]

    @property
    def condition(self) -> Condition:
        """What must hold of a row of ``spec_values``."""
        found = schema.spec_values.c
        return and_(found.path == self.path, found.value.in_(self.values))


def spec_value(tree: Tree) -> SpecValue | None:
    """A filter as a condition on the index alone; None when it is not one."""
    while isinstance(tree, AllOf | AnyOf) and len(tree.parts) == 1:
        tree = tree.parts[0]
    if not isinstance(tree, Compare) or tree.operator not in {Operator.EQUAL, Operator.IN}:
        return None
    root, _, path = tree.field.partition(".")
    if root != "spec" or not path or not is_path(path):
        return None
    entries = [entry_of(form) for one in _several(tree.value) for form in _forms(one)]
    if not entries or None in entries:
        return None
    return SpecValue(path, tuple(dict.fromkeys(entry for entry in entries if entry is not None)))


def _in_spec(wanted: SpecValue, exactly: Condition) -> Condition:
    """From the index, and from the spec itself for the jobs that are not in it."""
    found = select(schema.spec_values.c.job_id).where(wanted.condition)
    missing = schema.jobs.c.spec_indexed != literal_column(str(schema.INDEXED))  # its index says so
    return or_(schema.jobs.c.id.in_(found), and_(missing, exactly))


def _in_column(compare: Compare, column: ColumnElement[Any], dialect: str) -> Condition:
    operator, value = compare.operator, compare.value
    if operator is Operator.EXISTS:
        return column.is_not(None) if value else column.is_(None)
    if operator in {Operator.IN, Operator.NOT_IN}:
        among = or_(false(), *(_equal(column, one) for one in _several(value)))
        return among if operator is Operator.IN else not_(func.coalesce(among, false()))
    if operator is Operator.EQUAL:
        return _equal(column, value)
    if operator in _ORDER:
        result: Condition = _ORDER[operator](column, value)
        return result
    return _like(column, _pattern(operator, str(value)), dialect)


def _like(text: ColumnElement[Any], pattern: str, dialect: str) -> Condition:
    """Without regard to case: what LIKE does in SQLite by itself, faster than lowering both sides."""
    same = text.like if dialect == "sqlite" else text.ilike
    return same(pattern, escape="\\")


def _equal(column: ColumnElement[Any], value: Any) -> Condition:
    return column.is_(None) if value is None else column == value


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _pattern(operator: Operator, value: str) -> str:
    """The pattern of LIKE; a ``%`` of the user's is kept for ``$like`` alone."""
    escaped = re.sub(r"([\\_])", r"\\\1", value)
    if operator is Operator.LIKE and "%" in value:
        return escaped
    part = escaped.replace("%", "\\%")
    head = "" if operator is Operator.STARTS_WITH else "%"
    tail = "" if operator is Operator.ENDS_WITH else "%"
    return f"{head}{part}{tail}"


class JsonField:
    """A place in a JSON column, as each database sees it."""

    def __init__(self, column: str, path: list[str], dialect: str) -> None:
        self.column = schema.jobs.c[column]
        self.sqlite = dialect == "sqlite"
        self.path = _sqlite_path(path)
        self.parts = path

    def kind(self) -> ColumnElement[Any]:
        """The name of the JSON type there; NULL where there is nothing."""
        if self.sqlite:
            return func.json_type(self.column, self.path, type_=Text)
        return func.jsonb_typeof(self.value(), type_=Text)

    def value(self) -> ColumnElement[Any]:
        """What is there: a SQL value in SQLite, a jsonb value in PostgreSQL."""
        if self.sqlite:
            return func.json_extract(self.column, self.path)
        return func.jsonb_extract_path(cast(self.column, JSONB), *self.parts, type_=JSONB)

    def _content(self) -> ColumnElement[Any]:
        """The same as text or number in SQLite, as text in PostgreSQL."""
        if self.sqlite:
            return self.value()
        return func.jsonb_extract_path_text(cast(self.column, JSONB), *self.parts, type_=Text)

    def text(self) -> ColumnElement[Any]:
        """The text there; NULL where something else is."""
        return _only(self.kind().in_(["text", "string"]), cast(self._content(), Text))

    def number(self) -> ColumnElement[Any]:
        """The number there; NULL where something else is."""
        return _only(self.kind().in_(["integer", "real", "number"]), cast(self._content(), Float))

    def equals(self, value: Scalar) -> Condition:
        """Whether this very value is there; null also finds nothing at all."""
        if value is None:
            return or_(self.kind().is_(None), self.kind() == "null")
        if isinstance(value, bool):
            return self._is_truth(value)
        if isinstance(value, int | float):
            return self.number() == value
        return self.text() == value

    def among(self, values: Sequence[Scalar]) -> Condition:
        """Whether one of these very values is there."""
        exactly = or_(false(), *(self.equals(value) for value in values))
        if not self.sqlite or None in values:
            return exactly
        # first what costs least and is false for nearly all: kinds apart, the values have to be the same
        same = [int(value) if isinstance(value, bool) else value for value in values]
        return and_(self.value().in_(same), exactly)

    def holds(self, value: Scalar) -> Condition:
        """Whether the list there has the value in it."""
        if not self.sqlite:
            return _only(
                self.kind() == "array", self.value().op("@>")(cast(literal(json.dumps(value)), JSONB))
            )
        each = func.json_each(self.column, self.path).table_valued("value", "type")
        wanted = each.c.value == (int(value) if isinstance(value, bool) else value)
        return and_(self.kind() == "array", each.select().where(wanted).exists())

    def has_key(self, key: str) -> Condition:
        """Whether the object there has the key."""
        if not self.sqlite:
            return _only(self.kind() == "object", self.value().op("?")(literal(key)))
        each = func.json_each(self.column, self.path).table_valued("key", "type")
        return and_(self.kind() == "object", each.select().where(each.c.key == key).exists())

    def _is_truth(self, value: bool) -> Condition:
        word = "true" if value else "false"
        if self.sqlite:
            return self.kind() == word
        return self.value() == cast(literal(word), JSONB)


def _only(guard: Condition, content: ColumnElement[Any]) -> ColumnElement[Any]:
    """The content where the guard holds, else NULL; the other is not even evaluated."""
    return case((guard, content), else_=None)


def _sqlite_path(path: list[str]) -> str:
    return "$" + "".join(f"[{part}]" if part.isdecimal() else f'."{part}"' for part in path)


def _in_document(compare: Compare, place: JsonField) -> Condition:
    operator, value = compare.operator, compare.value
    if operator is Operator.EXISTS:
        return place.kind().is_not(None) if value else place.kind().is_(None)
    if operator in {Operator.IN, Operator.NOT_IN, Operator.EQUAL}:
        among = place.among([form for one in _several(value) for form in _forms(one)])
        return not_(func.coalesce(among, false())) if operator is Operator.NOT_IN else among
    if operator is Operator.HAS_KEY:
        return place.has_key(str(value))
    if operator is Operator.ELEMENT:
        return or_(false(), *(place.holds(form) for one in _several(value) for form in _forms(one)))
    if operator in _ORDER:
        return or_(false(), *(_ORDER[operator](_side(place, form), form) for form in _forms(value)))
    matches = _like(place.text(), _pattern(operator, str(value)), "sqlite" if place.sqlite else "postgresql")
    return or_(matches, place.holds(str(value))) if operator is Operator.CONTAINS else matches


def _side(place: JsonField, value: Scalar) -> ColumnElement[Any]:
    return place.text() if isinstance(value, str) else place.number()


def _forms(value: Any) -> list[Scalar]:
    """A value and, for text that spells one, the number, truth value or null that it may mean."""
    if not isinstance(value, str):
        return [value]
    try:
        spelled = strict_json.loads(value)
    except ValueError:
        return [value]
    if isinstance(spelled, int | float) and not isinstance(spelled, bool):
        return [value, spelled] if abs(spelled) < _LARGEST else [value]
    return [value, spelled] if spelled is None or isinstance(spelled, bool) else [value]
