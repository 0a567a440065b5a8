"""Patterns that are compiled at their first use."""

import re

import pytest

from nemo_runs.patterns import pattern


def test_it_does_what_the_compiled_one_does():
    lazy, compiled = pattern(r"(\w)=(\d+)", re.IGNORECASE), re.compile(r"(\w)=(\d+)", re.IGNORECASE)
    text = "a=1, B=22"
    assert lazy.findall(text) == compiled.findall(text)
    assert lazy.sub(r"\2", text) == compiled.sub(r"\2", text)
    assert [found.span() for found in lazy.finditer(text, 4)] == [(5, 9)]
    assert lazy.fullmatch(text) is None
    assert (lazy.pattern, lazy.flags, lazy.groups) == (compiled.pattern, compiled.flags, compiled.groups)


def test_it_is_compiled_when_it_is_used_first_and_never_before(monkeypatch):
    asked = []
    compiled = re.compile
    monkeypatch.setattr(re, "compile", lambda *of: asked.append(of) or compiled(*of))
    lazy = pattern("a+")
    assert asked == []
    assert [lazy.search("baa")[0], lazy.search("a")[0]] == ["aa", "a"]
    assert asked == [("a+", 0)]


def test_what_is_no_pattern_is_an_error_at_the_first_use():
    broken = pattern("(")
    with pytest.raises(re.error):
        broken.match("x")
