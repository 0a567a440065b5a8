"""Makes arithmetic questions: the same ones for the same arguments, each once as long as there are enough."""

from __future__ import annotations

import json
import math
import random
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

OPERATORS = ("+", "-", "*")
LETTERS = "ABCDEFGHIJ"
CHOSEN = [r"answer(?: is)?\s*:?\W*(?-i:([A-J]))\b", r"^\W*(?-i:([A-J]))\b"]
"""How small models name their choice: "The correct answer is C: 12", or the letter first."""


def prepare(
    output: Path,
    num_tasks: int = 100,
    seed: int = 0,
    digits: int = 1,
    operators: Sequence[str] = ("+",),
    choices: int = 0,
) -> None:
    """Write ``num_tasks`` questions with operands of ``digits`` digits, one JSON object a line.

    ``operators`` are among ``+ - *``; a difference is never negative. With ``choices`` (2 to 10) each row
    also has that many options, one of them right. A question comes twice only when all others were asked.
    `ValueError` names the argument that is not right.
    """
    _check_number("num_tasks", num_tasks, 1, 10_000_000)
    _check_number("seed", seed, 0, 2**63 - 1)
    _check_number("digits", digits, 1, 9)
    if choices != 0:
        _check_number("choices", choices, 2, len(LETTERS))
    if isinstance(operators, str) or not operators or any(sign not in OPERATORS for sign in operators):
        raise ValueError(f"operators must be a list of some of {' '.join(OPERATORS)}")
    rng = random.Random(seed)
    with output.open("w", encoding="utf-8") as stream:
        for left, sign, right in islice(_questions(rng, digits, operators, num_tasks), num_tasks):
            row = _row(left, sign, right)
            if choices:
                row = _with_options(row, choices, rng)
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def _check_number(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}")


def _questions(
    rng: random.Random, digits: int, operators: Sequence[str], wanted: int
) -> Iterator[tuple[int, str, int]]:
    """All questions in random order, again and again; no more of them are drawn than are wanted."""
    low = 0 if digits == 1 else 10 ** (digits - 1)
    count = 10**digits - low
    signs = list(dict.fromkeys(operators))
    sizes = [count * (count + 1) // 2 if sign == "-" else count * count for sign in signs]
    total = sum(sizes)
    while True:
        for number in rng.sample(range(total), min(total, wanted)):
            yield _question(number, low, count, signs, sizes)


def _question(number: int, low: int, count: int, signs: list[str], sizes: list[int]) -> tuple[int, str, int]:
    kind = 0
    while number >= sizes[kind]:
        number -= sizes[kind]
        kind += 1
    sign = signs[kind]
    if sign == "-":  # pairs with left >= right, in rows of growing length
        left = (math.isqrt(8 * number + 1) - 1) // 2
        right = number - left * (left + 1) // 2
    else:
        left, right = divmod(number, count)
    return low + left, sign, low + right


def _row(left: int, sign: str, right: int) -> dict[str, Any]:
    answer = {"+": left + right, "-": left - right, "*": left * right}[sign]
    question = f"What is {left} {sign} {right}?"
    return {
        "question": question,
        "expected_answer": str(answer),
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, question)),
    }


def _with_options(row: dict[str, Any], choices: int, rng: random.Random) -> dict[str, Any]:
    """Turn a row into multiple choice; the wrong numbers lie close to the right one."""
    right = int(row["expected_answer"])
    first = max(0, right - rng.randrange(choices + 3))
    near = [number for number in range(first, first + 2 * choices + 3) if number != right]
    numbers = [right, *rng.sample(near, choices - 1)]
    rng.shuffle(numbers)
    options = [{letter: str(number)} for letter, number in zip(LETTERS, numbers, strict=False)]
    options_text = "\n".join(f"{letter}: {text}" for option in options for letter, text in option.items())
    return {
        "question": row["question"],
        "options_text": options_text,
        "problem": f"{row['question']}\n{options_text}",
        "options": options,
        "expected_answer": LETTERS[numbers.index(right)],
        "uuid": row["uuid"],
        "template_metadata": {"output_regex": CHOSEN},
    }
