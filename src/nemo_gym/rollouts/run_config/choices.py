"""The choices of a question, in any published shape, as lettered options: ``benchmark.choices``."""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from nemo_gym.errors import DataError
from nemo_gym.rollouts.run_config.cells import read_cell
from nemo_gym.types import Row

RightAs = Literal["label", "number", "text"]
LETTERS: Final = string.ascii_uppercase


@dataclass(frozen=True, slots=True)
class _Choices:
    texts: Sequence[str | None]
    labels: Sequence[str] | None
    """What the data calls them; ``None``: it does not say."""


def choice_mapper(wanted: Mapping[str, Any]) -> Callable[[Row], Row]:
    """Make the function that adds ``options``, ``options_text`` and ``expected_answer`` (a letter) to a row.

    ``wanted`` has the keys of `ChoicesConfig`. `DataError` with a phrase for a row whose choices or right
    answer cannot be understood in one way only.
    """
    source, right = wanted["texts"], wanted["right"]
    first, right_as, seed = wanted.get("count_from") or 0, wanted.get("right_as"), wanted.get("shuffle")

    def mapped(row: Row) -> Row:
        if isinstance(source, str):
            choices = _in_field(row, source)
        else:
            choices = _Choices([_text(row, name) for name in source], None)
        if not isinstance(source, str) and right in source:
            index = source.index(right)
        else:
            index = _right(_value(row, right), right, choices, first, right_as)
        return {**row, **_lettered(choices.texts, index, seed)}

    return mapped


def texts_of(value: Any) -> list[str | None] | None:
    """The texts of choices in a field of any usual shape; ``None`` for anything else."""
    found = _shape(value)
    return None if found is None else [*found.texts]


def labels_of(value: Any) -> list[str] | None:
    """What the data calls the choices in a field; ``None`` where it does not say."""
    found = _shape(value)
    return None if found is None or found.labels is None else [*found.labels]


def _lettered(texts: Sequence[str | None], right: int, seed: int | None) -> Row:
    there = [number for number, text in enumerate(texts) if text is not None]
    if right not in there:
        raise DataError("benchmark.choices: the right choice is empty in this row")
    if len(there) > len(LETTERS):
        raise DataError(f"benchmark.choices: has {len(there)} choices, more than there are letters")
    if seed is not None:
        words = json.dumps([seed, texts])
        there.sort(key=lambda number: hashlib.sha256(f"{words}{number}".encode()).digest())
    options = [{letter: texts[number]} for letter, number in zip(LETTERS, there, strict=False)]
    lines = [f"{letter}. {text}" for option in options for letter, text in option.items()]
    return {
        "options": options,
        "options_text": "\n".join(lines),
        "expected_answer": LETTERS[there.index(right)],
    }


def _value(row: Row, name: str) -> Any:
    if name not in row:
        there = ", ".join([*row][:8]) or "none"
        raise DataError(f"benchmark.choices needs the field {name}, which this row lacks; it has {there}")
    return row[name]


def _text(row: Row, name: str) -> str | None:
    """The text of a choice in a field of its own; ``None`` where it is empty."""
    value = _value(row, name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"benchmark.choices: the field {name} must hold a text, not {value!r:.60}")
    return str(value)


def _in_field(row: Row, name: str) -> _Choices:
    found = _shape(_value(row, name))
    if found is None:
        raise DataError(
            f"benchmark.choices: the field {name} holds no choices (a list of texts, or {{text: […], label: "
            f"[…]}}) but {row[name]!r:.60}"
        )
    return found


def _shape(value: Any) -> _Choices | None:
    """Of texts, ``{label, text}`` or ``{A: …}`` in a list, ``{text: […], label: […]}``, or one's text."""
    if isinstance(value, str):
        value = read_cell(value)
    if isinstance(value, Mapping):
        texts, labels = value.get("text"), value.get("label")
        if isinstance(texts, list) and isinstance(labels, list) and len(texts) == len(labels):
            return _of(texts, labels)
        return _of([*value.values()], [*value])
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, Mapping) and item.keys() >= {"text", "label"} for item in value):
        return _of([item["text"] for item in value], [item["label"] for item in value])
    if all(isinstance(item, Mapping) and len(item) == 1 for item in value):
        return _of(
            [text for item in value for text in item.values()], [key for item in value for key in item]
        )
    return _of(value, None)


def _of(texts: list[Any], labels: list[Any] | None) -> _Choices | None:
    if not texts or any(isinstance(text, bool) or not isinstance(text, str | int | float) for text in texts):
        return None
    named = None if labels is None else [str(label).strip() for label in labels]
    return _Choices([str(text) for text in texts], named)


def _right(value: Any, name: str, choices: _Choices, first: int, right_as: RightAs | None) -> int:
    """The index of the right choice, where all ways to read the value that fit give the same."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(
            f"benchmark.choices: {name}, the right one, must be a text or a number, not {value!r:.60}"
        )
    ways = {right_as: _WAYS[right_as]} if right_as else _WAYS
    found = {way: index for way, read in ways.items() if (index := read(value, choices, first)) is not None}
    if not found:
        labels = choices.labels or LETTERS[: len(choices.texts)]
        raise DataError(
            f"benchmark.choices: {name}, {value!r:.60}, is not one of the {len(choices.texts)} choices: "
            f"not a label ({', '.join(labels)}), not a number from {first}, and not the text of one"
        )
    if len({*found.values()}) > 1:
        raise DataError(
            f"benchmark.choices: {name}, {value!r:.60}, is one choice as {' and another as '.join(found)}; "
            f"say which is meant: benchmark.choices.right_as={next(iter(found))}"
        )
    return next(iter(found.values()))


def _by_label(value: str | int, choices: _Choices, _first: int) -> int | None:
    labels = choices.labels or LETTERS[: len(choices.texts)]
    lower = [label.casefold() for label in labels]
    wanted = str(value).strip().casefold()
    return lower.index(wanted) if lower.count(wanted) == 1 else None


def _by_number(value: str | int, choices: _Choices, first: int) -> int | None:
    if choices.labels is not None and any(label.isdecimal() for label in choices.labels):
        return None  # a number is then a label
    digits = str(value).strip()
    if not digits.isascii() or not digits.isdecimal():
        return None
    index = int(digits) - first
    return index if 0 <= index < len(choices.texts) else None


def _by_text(value: str | int, choices: _Choices, _first: int) -> int | None:
    if isinstance(value, int):
        return None
    texts = [(text or "").strip() for text in choices.texts]
    return texts.index(value.strip()) if texts.count(value.strip()) == 1 else None


_WAYS: Final[dict[str, Callable[[str | int, _Choices, int], int | None]]] = {
    "label": _by_label,
    "number": _by_number,
    "text": _by_text,
}
