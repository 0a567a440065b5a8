"""What a Python file's functions look like to a model, and which arguments fit."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.tools.file_worker import ToolFileError, documented, fitted, tools_of

FILE = '''
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict
import math

class Point(TypedDict):
    x: float
    y: NotRequired[float]

def start_rollout(row: dict) -> None:
    """Not a tool."""

def _helper(): ...

def search(query: str, limit: int = 5, *, exact: bool = False) -> list[str]:
    """Search the archive.

    It has old papers, too.

    Args:
        query: What to look for,
            in plain words.
        limit (int): How many at most.

    Returns:
        Titles.
    """

def many(
    kind: Literal["a", "b"],
    where: Point,
    tags: list[str] | None = None,
    more: Annotated[dict[str, int], "Counts."] = {},
    anything: Any = None,
):
    """:param kind: Which.

    A description.
    """
'''


def schemas(source: str) -> dict[str, Any]:
    return {name: schema for name, (schema, _) in tools_of("tools.py", source, None).items()}


def test_public_functions_are_tools_described_by_their_hints_and_docstrings() -> None:
    found = schemas(FILE)
    assert list(found) == ["search", "many"]
    search = found["search"]
    assert search["description"] == "Search the archive.\n\nIt has old papers, too."
    assert search["parameters"] == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in plain words."},
            "limit": {"type": "integer", "description": "How many at most.", "default": 5},
            "exact": {"type": "boolean", "default": False},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    many = found["many"]["parameters"]["properties"]
    assert many["kind"] == {"enum": ["a", "b"], "description": "Which."}
    assert many["where"]["required"] == ["x"]
    assert many["tags"] == {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
    assert many["more"]["description"] == "Counts."
    assert many["anything"] == {}
    assert found["many"]["description"] == "A description."


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def f(", r"does not load: SyntaxError: '\(' was never closed \(tools.py:1\)$"),
        (
            "open('weather.json')",
            r"FileNotFoundError.*; the text of this file alone goes along",
        ),
        ("1 / 0", r"does not load: ZeroDivisionError: division by zero \(tools.py:1"),
        ("x = 1", "has no function that could be a tool"),
        ("def f(a: int): ...", "f has no docstring"),
        ('def f(a):\n    "Do."', r"f\(a\) has no type hint"),
        ('def f(a: set):\n    "Do."', r"f\(a\) has a type hint that JSON has no type for"),
        ('def f(a: dict[int, str]):\n    "Do."', "JSON has no type for"),
        ('def f(*a: int):\n    "Do."', r"f\(a\) must be a plain parameter"),
        ('def f(a: "Nothing"):\n    "Do."', "the type hints of f cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(source: str, problem: str) -> None:
    with pytest.raises(ToolFileError, match=problem):
        schemas(source)


def test_the_row_is_given_to_the_function_that_starts_a_rollout() -> None:
    source = 'seen = []\ndef start_rollout(row): seen.append(row["x"])\n'
    source += 'def f() -> list:\n    "Do."\n    return seen'
    _, function = tools_of("tools.py", source, {"x": 3})["f"]
    assert function() == [3]
    with pytest.raises(ToolFileError, match="start_rollout failed: KeyError"):
        tools_of("tools.py", source, {})


POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "schema", "found"),
    [
        (3.0, {"type": "integer"}, 3),
        (3, {"type": "number"}, 3),
        (None, {"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ([1.0, 2], {"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ({"x": 1.5}, POINT, {"x": 1.5}),
        ({"k": 1}, {"type": "object", "additionalProperties": {"type": "integer"}}, {"k": 1}),
        ("a", {"enum": ["a", "b"]}, "a"),
        ({"free": [1]}, {}, {"free": [1]}),
    ],
)
def test_arguments_that_fit(value: Any, schema: dict[str, Any], found: Any) -> None:
    fits = fitted(value, schema, "a")
    assert (fits, type(fits)) == (found, type(found))


@pytest.mark.parametrize(
    ("value", "schema", "problem"),
    [
        ("3", {"type": "integer"}, "a must be of the type integer"),
        (True, {"type": "integer"}, "of the type integer"),
        (1, {"type": "boolean"}, "of the type boolean"),
        (3.5, {"type": "integer"}, "of the type integer"),
        ("c", {"enum": ["a", "b"]}, r'one of \["a", "b"\]'),
        (1, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "fits none of"),
        (["x"], {"type": "array", "items": {"type": "integer"}}, r"a\[0\] must be"),
        ({}, POINT, "a lacks 'x'"),
        ({"x": 1, "z": 2}, POINT, "a has 'z', which is not known; known are x"),
        ({"x": "1"}, POINT, "a.x must be of the type number"),
    ],
)
def test_arguments_that_do_not_fit_are_named_for_the_model(
    value: Any, schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        fitted(value, schema, "a")


def test_a_docstring_without_sections_is_the_description() -> None:
    text = "Do it.\n\n:param int a: One.\n  more\n:returns: Two.\n\nAnd more."
    assert documented(text) == ("Do it.\n\nAnd more.", {"a": "One. more"})
    assert documented("Parameters:\n  a (int): One.\n    b: more") == ("", {"a": "One. b: more"})
