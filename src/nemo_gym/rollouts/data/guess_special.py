"""Rows of kinds that have a verifier of their own: code with tests, instructions that a program checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from nemo_gym.types import Row

_COMPLETE: Final = (
    "Complete this Python function. Reply with the whole function, with what it imports, in one block of "
    "Python code.\n\n```python\n{prompt}\n```"
)
_BY_TESTS: Final = (
    "{{ %s }}\n\nReply with one block of Python code. It must pass these tests:\n\n"
    "{{ test_list | join('\\n') }}"
)


@dataclass(frozen=True, slots=True)
class Special:
    """What was guessed of rows of such a kind."""

    benchmark: dict[str, Any]
    said: dict[str, str]
    used: tuple[str, ...]


def guess_special(rows: Sequence[Row], present: Sequence[str], kind: str | None) -> Special | None:
    """The prompt and verifier of rows whose fields say what they are; ``None`` for others."""
    if kind in (None, "code"):
        return _code(rows, present)
    if kind == "ifeval":
        return _instructions(present)
    return None


def _code(rows: Sequence[Row], present: Sequence[str]) -> Special | None:
    if {"prompt", "test", "entry_point"} <= {*present}:
        verifier: dict[str, Any] = {"type": "code", "prompt_field": "prompt"}
        said = {"prompt": "prompt begins a program", "verifier": "test has its tests, in a sandbox"}
        used = ("prompt", "test", "entry_point")
        return Special({"prompt": {"user": _COMPLETE}, "verifier": verifier}, said, used)
    question = next((name for name in ("text", "prompt", "question") if name in present), None)
    if (
        question is not None
        and "test_list" in present
        and all(isinstance(row["test_list"], list) for row in rows)
    ):
        verifier = {"type": "code", "test_field": "test_list", "entry_point_field": None}
        prompt = {"syntax": "jinja2", "user": _BY_TESTS % question}
        said = {"prompt": f"{question} and the tests is what is asked", "verifier": "test_list has the tests"}
        return Special({"prompt": prompt, "verifier": verifier}, said, (question, "test_list"))
    return None


def _instructions(present: Sequence[str]) -> Special | None:
    if not {"prompt", "instruction_id_list", "kwargs"} <= {*present}:
        return None
    said = {"prompt": "prompt is what is asked", "verifier": "instruction_id_list has what is checked"}
    benchmark = {"prompt": {"user": "{prompt}"}, "verifier": {"type": "ifeval"}}
    return Special(benchmark, said, ("prompt", "instruction_id_list", "kwargs"))


_TALK: Final = "Grade the last answer of the assistant in a conversation.\n\n[Conversation]\n{conversation}"
_QUESTION: Final = "Grade the answer to a question.\n\n[Question]\n{question}"
_RIGHT: Final = "[Reference answer]\n{expected_answer}"
_SCORE: Final = (
    "Say in a few sentences how good the answer is: right, to the point, helpful. Then end with a line of "
    'its own that reads "Score: N", where N is a whole number from 1 (bad) to 10 (as good as can be).'
)


def judge_of(*, talk: bool, gold: bool) -> dict[str, Any]:
    """A judge whose prompt has what the rows have: conversations (``talk``), right answers (``gold``)."""
    if gold and not talk:
        return {"type": "judge"}
    parts = [_TALK if talk else _QUESTION, *([_RIGHT] if gold else []), "[Answer]\n{answer}", _SCORE]
    return {"type": "judge", "prompt": "\n\n".join(parts)}
