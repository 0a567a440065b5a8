"""The columns of somebody's data under the names that prompt and verifier use: ``benchmark.fields``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nemo_gym.dotted_paths import at_path
from nemo_gym.errors import DataError
from nemo_gym.rollouts.run_config.choices import choice_mapper
from nemo_gym.types import Row

_ABSENT = object()


def row_mapper(fields: Mapping[str, str] | None, choices: Mapping[str, Any] | None) -> Callable[[Row], Row]:
    """Make the function that gives a row its fields by their new names, and then its choices as options.

    `DataError` with a phrase for a row where that cannot be done.
    """
    renamed = field_mapper(fields)
    if not choices:
        return renamed
    lettered = choice_mapper(choices)
    return lambda row: lettered(renamed(row))


def field_mapper(fields: Mapping[str, str] | None) -> Callable[[Row], Row]:
    """Make the function that gives a row its fields by their new names; the others stay as they are.

    A column is named as it is, or by a path into it: ``answers.text.0``. `DataError` with a phrase for a row
    that lacks one.
    """
    if not fields:
        return lambda row: row
    moved = set(fields.values())

    def mapped(row: Row) -> Row:
        found = {name: _value(row, column, name) for name, column in fields.items()}
        return {name: value for name, value in row.items() if name not in moved} | found

    return mapped


def _value(row: Row, column: str, name: str) -> Any:
    value = at_path(row, column, _ABSENT)
    if value is _ABSENT:
        there = ", ".join([*row][:8]) or "none"
        raise DataError(f"benchmark.fields takes {name} from {column}, which this row lacks; it has {there}")
    return value
