"""Which columns of somebody's rows hold a list or an object as text that is meant to be read. Pure.

A text that begins with a bracket may as well be a question or a right answer as it is. So a column is
read only where its name or its shape says what it is: conversations, several right answers, lists of tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nemo_gym.rollouts.run_config.cells import read_cell
from nemo_gym.types import Row

SEVERAL_ANSWERS: Final = (
    *("answers", "possible_answers", "acceptable_answers", "gold_answers", "correct_answers"),
    *("expected_answers", "references"),
)
"""Names of columns with several right answers, each of which will do."""
_LISTS: Final = ("test_list", "instruction_id_list", "kwargs")


def columns_to_parse(
    rows: Sequence[Row], present: Sequence[str], is_conversation: Callable[[list[Any]], bool]
) -> list[str]:
    """The columns, of those that all rows have."""
    return [name for name in present if _is_meant(name, [row[name] for row in rows], is_conversation)]


def _is_meant(name: str, values: list[Any], is_conversation: Callable[[list[Any]], bool]) -> bool:
    if not all(isinstance(value, str) and value.lstrip()[:1] in ("[", "{", "a") for value in values):
        return False
    found = [read_cell(value) for value in values]
    if any(value is None for value in found):
        return False
    if name.lower() in SEVERAL_ANSWERS:
        return all(map(_are_answers, found))
    return name.lower() in _LISTS or is_conversation(found)


def _are_answers(value: Any) -> bool:
    if isinstance(value, Mapping):
        return isinstance(value.get("text"), list)
    return (
        isinstance(value, list) and bool(value) and all(isinstance(item, str | int | float) for item in value)
    )
