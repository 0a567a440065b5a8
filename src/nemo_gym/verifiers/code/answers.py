"""Taking code out of an answer: out of its fenced blocks, or as what goes on from the prompt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

Extract = Literal["last_block", "first_block", "completion"]

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[^\n`]*)$", re.MULTILINE)
_PYTHON = frozenset({"", "python", "python3", "py", "py3"})


def code_in(answer: str, how: Extract, entry_point: str | None) -> str | None:
    """The code of an answer; `None` when it has none.

    Of several blocks one that defines ``entry_point`` is taken before others, since an example of its use
    often follows. An answer without any block is code as a whole.
    """
    if how == "completion":
        return answer if answer.strip() else None
    found = [text for language, text in blocks(answer) if language in _PYTHON]
    if not found:
        return answer if answer.strip() and not _FENCE.search(answer) else None
    defining = [text for text in found if entry_point is not None and defines(text, entry_point)]
    among = defining or found
    return among[0] if how == "first_block" else among[-1]


def blocks(answer: str) -> Iterator[tuple[str, str]]:
    """First word behind the fence and text of each block; one that is not closed ends with the answer.

    What a fence is indented by, in a list say, is taken off the lines of its block. Lines end with ``\\n``.
    """
    answer, at = answer.replace("\r\n", "\n"), 0
    while opening := _FENCE.search(answer, at):
        fence = opening["fence"]
        closing = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
        end = closing.search(answer, opening.end())
        words = opening["language"].split()
        text = answer[opening.end() + 1 : end.start() if end else len(answer)]
        if indent := len(opening["indent"]):
            text = re.sub(rf"^[ \t]{{1,{indent}}}", "", text, flags=re.MULTILINE)
        yield words[0].lower() if words else "", text
        if end is None:
            return
        at = end.end()


def defines(code: str, name: str) -> bool:
    """Whether code defines a function, a class or a variable of this name at its top level."""
    return (
        re.search(rf"^(?:(?:async\s+)?def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*[:=]", code, re.M)
        is not None
    )


def program_of(code: str, prompt: str, entry_point: str | None) -> str:
    """The program that code and prompt make.

    Code that defines the entry point follows the prompt, so that it has its imports and helpers, or is
    alone where the two together are not valid Python. Other code goes on where the prompt ends.
    """
    if not prompt:
        return code
    if entry_point is None or not defines(code, entry_point):
        return prompt + code
    both = f"{prompt.rstrip()}\n\n\n{code}"
    return both if is_python(both) or not is_python(code) else code


def is_python(code: str) -> bool:
    """Whether this is valid Python."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
