"""Right answers in a row: what verifiers that compare with them have in common."""

from __future__ import annotations

from typing import Any

from nemo_gym.types import Row


def right_answers(row: Row, field: str) -> list[Any]:
    """The right answers of a row: its field, or each member where that is a list."""
    value = row.get(field)
    return value if isinstance(value, list) else [value]


def lacks_texts(row: Row, field: str) -> str | None:
    """What the row lacks where its right answers must be texts that are not empty."""
    if row.get(field) is None or row[field] == []:
        others = ", ".join([key for key in row if key != "responses_create_params"][:8])
        return f"no '{field}'" + (f"; answer_field names the field, one of {others}" if others else "")
    for answer in right_answers(row, field):
        if not isinstance(answer, str | int | float) or isinstance(answer, bool):
            return f"'{field}' is neither text nor a number: {answer!r:.60}"
        if not str(answer).strip():
            return f"'{field}' is empty"
    return None
