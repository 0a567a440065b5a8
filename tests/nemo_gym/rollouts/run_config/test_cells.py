"""A cell of a table is read as what wrote it meant it, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rollouts.run_config.cells import read_cell


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('["a", "b"]', ["a", "b"]),
        ("['a', 'b']", ["a", "b"]),
        ("('a', 'b')", ["a", "b"]),
        (" ['a' \"it's\"\n 'c'] ", ["a", "it's", "c"]),
        ("['a']", ["a"]),
        ("['🙂' 'é']", ["🙂", "é"]),
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        ("{'text': array(['a' 'b']), 'n': -1.5}", {"text": ["a", "b"], "n": -1.5}),
        (
            "[{'role': 'user', 'content': 'a {b} [c]'}\n {'role': 'assistant', 'content': 'd'}]",
            [{"role": "user", "content": "a {b} [c]"}, {"role": "assistant", "content": "d"}],
        ),
        ("[['a' 'b']\n ['c' 'd']]", [["a", "b"], ["c", "d"]]),
        ("[1. 2.5]", [1.0, 2.5]),
        ("[None, True, 3]", [None, True, 3]),
    ],
)
def test_what_a_list_or_an_object_writes_is_read(text: str, value: Any) -> None:
    assert read_cell(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "words",
        "{[1]: 2}",
        "{1: 2}",
        "{**a}",
        "['a' nan]",
        "[...]",
        "['a' ... 'z']",
        "exec('1')",
        "array(open('x'))",
        "[x for x in 'ab']",
        "b'x'",
        "'a' 'b'",
        "['a'] # b",
        "[1 -2]",
        "a = ['b']",
        "['a']\n['b']",
        "f'{1}'",
        "[" * 100_000,
        "-" * 5_000 + "1",
        "['a\x00b']",
        "'" + "\\",
    ],
)
def test_anything_else_is_no_value(text: str) -> None:
    assert read_cell(text) is None
