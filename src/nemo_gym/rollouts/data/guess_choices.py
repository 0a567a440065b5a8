"""Where somebody's rows have the choices of a question, and which field says the right one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nemo_gym.errors import DataError
from nemo_gym.rollouts.run_config.choices import LETTERS, choice_mapper, labels_of, texts_of
from nemo_gym.types import Row

_FIELDS: Final = ("choices", "options", "endings", "answer_choices", "candidates", "alternatives")
_STEMS: Final = frozenset(("", "option", "choice", "sol", "ending", "answer", "opt", "op", "alternative"))
_WRONG_STEMS: Final = frozenset(("distractor", "incorrect", "incorrectanswer", "wrong", "wronganswer"))
_RIGHT: Final = (
    *(
        "expected_answer",
        "answer",
        "answerkey",
        "answer_key",
        "label",
        "gold",
        "gold_label",
        "target",
        "ideal",
    ),
    *("correct", "correct_answer", "correct_option", "correct_choice", "right_answer", "answer_idx"),
    *("answer_index", "answer_letter", "answer_right_ending", "cop", "ground_truth", "solution"),
)
_RIGHT_TEXTS: Final = ("correct_answer", "right_answer", "best_answer", "correct", "answer")
_MEMBER: Final = re.compile(r"(.*?)[ _-]?(\d{1,2}|[A-Ja-j])")


@dataclass(frozen=True, slots=True)
class FoundChoices:
    """Where the choices are."""

    key: dict[str, Any]
    """What `benchmark.choices` says."""
    fields: tuple[str, ...]
    """The fields that hold them."""
    said: str
    """A phrase about them."""


def find_choices(rows: Sequence[Row], present: Sequence[str]) -> FoundChoices | None:
    """The choices of rows in which every right answer can be understood in one way; ``None`` for others.

    ``present`` are the fields that all rows have.
    """
    for texts, fields in _places(rows, present):
        for right in _rights(present, fields):
            found = _fitting(rows, texts, right, prefer=_first_number(texts, right))
            if found is not None:
                where = texts if isinstance(texts, str) else ", ".join(texts)
                counted = f", counted from {found['count_from']}" if "count_from" in found else ""
                said = f"the choices are in {where}, and {right} says which is right{counted}"
                return FoundChoices(found, (*fields, right), said)
    return _columns_of_wrong_ones(rows, present)


def _places(rows: Sequence[Row], present: Sequence[str]) -> Iterator[tuple[str | list[str], tuple[str, ...]]]:
    for name in sorted(present, key=lambda name: _place(name.lower())):
        if name.lower() in _FIELDS and all(_is_list(row[name]) for row in rows):
            yield name, (name,)
    for names in _families(present, _STEMS):
        if all(
            row[name] is None or isinstance(row[name], str | int | float) for row in rows for name in names
        ):
            yield names, tuple(names)


def _place(name: str) -> int:
    return _FIELDS.index(name) if name in _FIELDS else len(_FIELDS)


def _is_list(value: Any) -> bool:
    texts = texts_of(value)
    return texts is not None and 2 <= len(texts) <= len(LETTERS)


def _families(present: Sequence[str], stems: frozenset[str]) -> Iterator[list[str]]:
    """Columns that are numbered or lettered from the first one: ``option1, option2``, ``A, B, C``."""
    families: dict[str, dict[int, str]] = {}
    for name in present:
        member = _MEMBER.fullmatch(name)
        if member is not None and _stem(member[1]) in stems:
            mark = member[2]
            number = int(mark) if mark.isdecimal() else LETTERS.index(mark.upper())
            families.setdefault(f"{member[1]} {mark.isdecimal()}", {})[number] = name
    for members in families.values():
        first = min(members)
        if len(members) > 1 and first <= 1 and max(members) == first + len(members) - 1:
            yield [members[number] for number in sorted(members)]


def _stem(text: str) -> str:
    return re.sub(r"[ _-]", "", text.lower())


def _rights(present: Sequence[str], without: Sequence[str]) -> list[str]:
    names = [name for name in present if name.lower() in _RIGHT and name not in without]
    return sorted(names, key=lambda name: _RIGHT.index(name.lower()))


def _first_number(texts: str | list[str], right: str) -> int:
    """The first choice's probable number; labels of classes count from 0 whatever columns are called."""
    if isinstance(texts, str) or right.lower() == "label":
        return 0
    return 1 if texts[0][-1:] == "1" else 0


def _fitting(
    rows: Sequence[Row], texts: str | list[str], right: str, *, prefer: int
) -> dict[str, Any] | None:
    """What `benchmark.choices` has to say for all rows to be understood; ``None`` where nothing does.

    Where numbers fit whether they begin at 0 or at 1, ``prefer`` decides; where two other meanings fit all
    rows, none is chosen.
    """
    key = {"texts": texts, "right": right}
    counts = [{"count_from": first} for first in (prefer, 1 - prefer)]
    ways: list[dict[str, Any]] = [
        {"right_as": "label"},
        *({"right_as": "number", **count} for count in counts),
        {"right_as": "text"},
    ]
    found = [(way, letters) for way in ways if (letters := _letters(rows, {**key, **way})) is not None]
    if not found:  # rows may differ in how they say it
        return key if _letters(rows, key) is not None else None
    way, letters = found[0]
    others = [other for other, read in found if read != letters]
    if any(other["right_as"] != way["right_as"] for other in others):
        return None
    said = {"count_from": way["count_from"]} if way.get("count_from") or others else {}
    plain = {**key, **said}
    return plain if _letters(rows, plain) == letters else {**key, "right_as": way["right_as"], **said}


def _letters(rows: Sequence[Row], key: dict[str, Any]) -> list[str] | None:
    mapped = choice_mapper(key)
    try:
        return [mapped(row)["expected_answer"] for row in rows]
    except DataError:
        return None


def _columns_of_wrong_ones(rows: Sequence[Row], present: Sequence[str]) -> FoundChoices | None:
    """The right choice in one column and the wrong ones in others, as GPQA and SciQ have them."""
    lower = {_stem(name): name for name in present}
    right = next((lower[_stem(name)] for name in _RIGHT_TEXTS if _stem(name) in lower), None)
    for wrong in _families(present, _WRONG_STEMS):
        if right is None or right in wrong:
            continue
        key = {"texts": [right, *wrong], "right": right, "shuffle": 0}
        if _letters(rows, key) is not None:
            said = f"{right} is the right choice and {', '.join(wrong)} are wrong ones, shuffled"
            return FoundChoices(key, (right, *wrong), said)
    return None


def are_letters_already(rows: Sequence[Row], name: str, right: str) -> bool:
    """Whether choices have letters as labels, and each right answer is one of them."""
    return all(
        isinstance(row[right], str) and row[right].strip().upper() in (labels_of(row[name]) or ())
        for row in rows
    )
