"""Hostile text is shown, not obeyed."""

from __future__ import annotations

import pytest

from nemo_pages.text import one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext é 漢 🙂", "plain\n\ttext é 漢 🙂"),
        ("\x1b[31mred\x07\x00", "⟨ESC⟩[31mred⟨BEL⟩⟨NUL⟩"),
        ("a\u202egnp.exe\u2066", "a\u27e8U+202E\u27e9gnp.exe\u27e8U+2066\u27e9"),
        ("\x7f\x9b\ufeff\ud800", "⟨DEL⟩\u27e89B\u27e9\u27e8U+FEFF\u27e9\u27e8U+D800\u27e9"),
        ("a\rb\u2028c", "a⟨CR⟩b\u27e8U+2028\u27e9c"),
    ],
)
def test_characters_that_act_become_signs(text, shown):
    assert visible(text) == shown
    visible(text).encode()


def test_a_text_of_ten_million_characters_is_cut_and_says_so():
    shown = visible("x" * 10_000_000)
    assert len(shown) < 101_000
    assert shown.endswith(" … (9,900,000 more characters)")


def test_several_lines_become_one():
    assert one_line("  a\n\tb  ") == "a b"
    assert one_line("word " * 1000, 9) == "word word …"
