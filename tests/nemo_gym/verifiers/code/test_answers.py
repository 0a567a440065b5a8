from __future__ import annotations

from textwrap import indent

import pytest

from nemo_gym.verifiers.code.answers import code_in, program_of

FUNCTION = "def add(a, b):\n    return a + b\n"
IN_A_LIST = indent(f"```python\n{FUNCTION}```\n", "   ")


@pytest.mark.parametrize(
    ("answer", "how", "code"),
    [
        (f"So:\n```python\n{FUNCTION}```\nDone.", "last_block", FUNCTION),
        (f"```py\n{FUNCTION}```\nUse it:\n```python\nadd(1, 2)\n```", "last_block", FUNCTION),
        ("```\na = 1\n```\n```\nb = 1\n```", "last_block", "b = 1\n"),
        ("```\na = 1\n```\n```\nb = 1\n```", "first_block", "a = 1\n"),
        (f"```python\n{FUNCTION}", "last_block", FUNCTION),
        (f"~~~~python title=x\n{FUNCTION}~~~~", "last_block", FUNCTION),
        (f"````python\ns = '''\n```\n'''\n{FUNCTION}````", "last_block", f"s = '''\n```\n'''\n{FUNCTION}"),
        (f"```python\n{FUNCTION}```\n```bash\npip install x\n```", "last_block", FUNCTION),
        (f"So:\n```python\n{FUNCTION}```\nDone.".replace("\n", "\r\n"), "last_block", FUNCTION),
        (f"1. So:\n{IN_A_LIST}2. Done.", "last_block", FUNCTION),
        ("- So:\n\t```\n\tif a:\n\t    b\n  c\n\t```", "last_block", "if a:\n    b\n c\n"),
        ("```bash\nls\n```", "last_block", None),
        (FUNCTION, "last_block", FUNCTION),
        ("  return a + b\n", "completion", "  return a + b\n"),
        ("  \n", "last_block", None),
        ("", "completion", None),
    ],
)
def test_code_is_found_in_an_answer(answer: str, how: str, code: str | None) -> None:
    assert code_in(answer, how, "add") == code  # type: ignore[arg-type]


PROMPT = 'import math\n\ndef add(a, b):\n    """Add."""\n'


@pytest.mark.parametrize(
    ("code", "prompt", "program"),
    [
        (FUNCTION, "", FUNCTION),
        (FUNCTION, PROMPT, f"{PROMPT}\n\n{FUNCTION}"),
        ("    return a + b\n", PROMPT, f"{PROMPT}    return a + b\n"),
        # a prompt that is no program by itself
        (FUNCTION, "def add(a, b):", FUNCTION),
        ("return a + b", "def add(a, b): ", "def add(a, b): return a + b"),
    ],
)
def test_code_and_prompt_make_a_program(code: str, prompt: str, program: str) -> None:
    assert program_of(code, prompt, "add") == program
