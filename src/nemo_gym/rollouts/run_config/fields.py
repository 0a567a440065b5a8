"""The columns of somebody's data as prompt and verifier use them: ``parse``, ``fields`` and ``choices``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nemo_gym.dotted_paths import at_path
from nemo_gym.errors import DataError
from nemo_gym.rollouts.run_config.cells import read_cell
from nemo_gym.rollouts.run_config.choices import choice_mapper
from nemo_gym.types import Row

_ABSENT = object()


def row_mapper(
    fields: Mapping[str, str] | None,
    choices: Mapping[str, Any] | None = None,
    parse: Sequence[str] | None = None,
) -> Callable[[Row], Row]:
    """Make the function that reads what a row holds as text, renames its fields and letters its choices.

    `DataError` with a phrase for a row where that cannot be done.
    """
    steps = [field_mapper(fields)]
    if parse:
        steps.insert(0, _parser(parse))
    if choices:
        steps.append(choice_mapper(choices))

    def mapped(row: Row) -> Row:
        for step in steps:
            row = step(row)
        return row

    return mapped


def _parser(names: Sequence[str]) -> Callable[[Row], Row]:
    """Make the function that reads lists and objects in texts; every other value remains."""

    def parsed(row: Row) -> Row:
        return {**row, **{name: _parsed(row, name) for name in names}}

    return parsed


def _parsed(row: Row, name: str) -> Any:
    if name not in row:
        raise DataError(f"benchmark.parse names the field {name}, which this row lacks; it has {_some(row)}")
    value = row[name]
    if not isinstance(value, str) or not value.strip():
        return value
    found = read_cell(value)
    if found is None:
        raise DataError(f"benchmark.parse: the field {name} holds no list or object but {value!r:.60}")
    return found


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
        raise DataError(
            f"benchmark.fields takes {name} from {column}, which this row lacks; it has {_some(row)}"
        )
    return value


def _some(row: Row) -> str:
    return ", ".join([*row][:8]) or "none"
