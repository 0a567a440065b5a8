"""JSON that every reader reads alike."""

import json

import pytest

from nemo_runs import strict_json


@pytest.mark.parametrize("value", [{}, [], None, 1, -1.5e3, "a\u00e9", {"a": {"a": [18446744073709551615]}}])
def test_what_all_readers_read_alike_is_read(value):
    assert strict_json.loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": NaN}', "holds NaN, which is not a number in JSON"),
        ("[-Infinity]", "holds -Infinity"),
        ("1e999", "holds the number 1e999, which is too large"),
        ("18446744073709551616", "which has more than 64 bits"),
        ('[{"a": 1, "b": {"c": 1, "c": 2}}]', "has the key 'c' more than once in one object"),
        ('"\\ud800"', "holds half of a character"),
        ("[" * 100_000 + "]" * 100_000, "its brackets are too deep"),
    ],
)
def test_what_readers_disagree_about_is_refused(text, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        strict_json.loads(text)
    assert not isinstance(caught.value, json.JSONDecodeError)


def test_what_is_no_json_is_told_apart():
    with pytest.raises(json.JSONDecodeError):
        strict_json.loads("{a: 1}")
