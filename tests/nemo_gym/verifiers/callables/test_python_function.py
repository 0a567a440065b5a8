"""Functions that grade: what identifies them."""

from __future__ import annotations

import functools
import textwrap
import types
from typing import Any

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.verifiers.callables.python_function import function_spec
from nemo_gym.verifiers.registry import load_verifier


def digest(source: str, tmp_path: Any, name: str = "grade") -> str:
    """The digest of a function of a module with this source."""
    path = tmp_path / f"m{len(list(tmp_path.iterdir()))}.py"
    path.write_text(textwrap.dedent(source))
    module = types.ModuleType("graders")
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return str(function_spec(vars(module)[name])["sha256"])


SOURCE = """
    LIMIT = 3
    seen = []

    def helper(answer):
        return len(answer) <= LIMIT

    def grade(answer):
        seen.append(answer)
        return float(helper(answer))
    """


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (SOURCE, True),
        (SOURCE.replace("seen = []", "seen = ['x']"), True),
        (SOURCE.replace("seen = []", "unused = 5\n    seen = []"), True),
        (SOURCE.replace("LIMIT = 3", "LIMIT = 4"), False),
        (SOURCE.replace("<= LIMIT", "< LIMIT"), False),
        (SOURCE.replace("float(", "0.5 * float("), False),
    ],
)
def test_a_function_is_known_by_its_source_and_what_it_uses(changed: str, same: bool, tmp_path: Any) -> None:
    assert (digest(SOURCE, tmp_path) == digest(changed, tmp_path)) is same


def made(limit: int) -> Any:
    def grade(answer: str) -> float:
        return float(len(answer) <= limit)

    return grade


class Grader:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, answer: str) -> float:
        return float(len(answer) <= self.limit)


@pytest.mark.parametrize("kind", [made, Grader, lambda limit: functools.partial(made(3), limit=limit)])
def test_closures_objects_and_partial_functions_are_known_by_their_values(kind: Any) -> None:
    assert function_spec(kind(3)) == function_spec(kind(3))
    assert function_spec(kind(3))["sha256"] != function_spec(kind(4))["sha256"]


def test_a_config_that_names_one_is_refused_with_what_helps() -> None:
    with pytest.raises(ConfigError, match=r"grade is a function of the Python program .* nemo_gym\.run"):
        load_verifier({"type": "function", "name": "grade", "sha256": "0"})
