"""What a rollout says whose answer are likelihoods: each text that was scored, and how likely it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nemo_gym.harness.agent import FIELD, LIKELIHOODS, SCORED, conditional
from nemo_gym.types import Row

STEP: Final = "log-likelihoods"
"""The kind of the step that shows them."""
TARGET: Final = "target"
"""The field of a row of lm-eval that holds the expected answer: a text, or the number of a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredText:
    """One text that was asked for."""

    text: str | None
    """What follows the context; ``None``: the prompt itself."""
    log_likelihood: float
    """Natural logarithm of its probability, summed over its tokens."""
    greedy: bool
    """Whether each of its tokens is the likeliest one, so that the model would have said it."""
    likeliest: bool
    expected: bool


def scored_texts(row: Row, fields: Mapping[str, Any]) -> list[ScoredText]:
    """The texts of a row with the likelihoods among an agent's fields; empty for other rows."""
    asked, scored = row.get(LIKELIHOODS), fields.get(SCORED)
    if not isinstance(asked, Mapping) or not isinstance(scored, list) or not scored:
        return []
    count = conditional(asked)
    texts = [*asked.get("texts", ())][:count]
    values = [value for value, _ in scored][: count or None]
    right = expected_choice(row)
    several = len(values) > 1
    return [
        ScoredText(
            text=texts[number] if number < len(texts) else None,
            log_likelihood=float(value),
            greedy=bool(scored[number][1]),
            likeliest=several and value == max(values),
            expected=several and number == right,
        )
        for number, value in enumerate(values)
    ]


def expected_choice(row: Row) -> int | None:
    """The number of the right one of several texts; ``None`` where the row does not say it."""
    asked, target = row.get(LIKELIHOODS), row.get(TARGET)
    texts = asked.get("texts") if isinstance(asked, Mapping) else None
    if not isinstance(texts, list) or len(texts) < 2 or not isinstance(target, str):
        return None
    if target.isdecimal():
        return int(target) if int(target) < len(texts) else None
    same = [number for number, text in enumerate(texts) if str(text).strip() == target.strip()]
    return same[0] if same else None


def expected_text(row: Row) -> str | None:
    """The expected answer of a row of lm-eval: of several texts the right one, else what the row says.

    ``None`` for rows of others.
    """
    if FIELD not in row:
        return None
    number, target = expected_choice(row), row.get(TARGET)
    if number is not None:
        return str(row[LIKELIHOODS]["texts"][number]).strip()
    asked = row.get(LIKELIHOODS)
    whole = isinstance(asked, Mapping) and asked.get("rolling") is True  # the prompt again
    return target if isinstance(target, str) and not whole else None


def step_of(found: Sequence[ScoredText]) -> dict[str, str]:
    """The texts as a step to read: a line for each, with its number, as the row counts them."""
    lines = []
    for number, each in enumerate(found):
        text = "the prompt" if each.text is None else json.dumps(each.text, ensure_ascii=False)
        marks = {"likeliest": each.likeliest, "expected": each.expected, "greedy": each.greedy}
        said = ", ".join(name for name, holds in marks.items() if holds)
        head = f"{number}  " if len(found) > 1 else ""
        lines.append(f"{head}{each.log_likelihood:9.3f}  {text}" + (f"  ({said})" if said else ""))
    return {"kind": STEP, "content": "\n".join(lines)}
