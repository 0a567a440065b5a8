from __future__ import annotations

import re

import pytest

from nemo_gym.verifiers.code.row_tests import call_of, imports, statements_in, untested

HUMANEVAL = "METADATA = {'author': 'jt'}\n\n\ndef check(candidate):\n    assert candidate(1) == 2\n"
UNITTEST = (
    "import unittest\n\n\nclass Cases(unittest.TestCase):\n    def test_a(self):\n        assert f(1) == 2\n"
)


@pytest.mark.parametrize(
    ("tests", "call", "found"),
    [
        (HUMANEVAL, "", "check({entry_point})"),
        (HUMANEVAL, "check(f)", "check(f)"),
        (HUMANEVAL + "check(f)\n", "", ""),
        (HUMANEVAL + "passed = check(f)\n", "", ""),
        ("assert f(1) == 2", "", ""),
    ],
)
def test_a_function_check_is_called_unless_it_is_already(tests: str, call: str, found: str) -> None:
    assert call_of(tests, call) == found
    assert untested(tests, call) is None


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (
            "def test_f():\n    assert f(1) == 2",
            r"only defines test_f, and nothing calls it; .* say 'test_f\(\)'",
        ),
        (UNITTEST, r"only defines Cases, and nothing calls it; .*loadTestsFromTestCase\(Cases\)"),
        ("# nothing yet", "holds no statement that could fail"),
        ('"""f(1) is 2"""\nimport math\nexpected = 2', "holds no statement that could fail"),
    ],
)
def test_tests_that_nothing_calls_are_refused_with_the_call(tests: str, said: str) -> None:
    assert re.search(said, untested(tests, "") or "")
    assert untested(tests, "test_f()") is None


def test_the_call_that_is_proposed_for_unittest_tells_right_from_wrong() -> None:
    problem = untested(UNITTEST, "") or ""
    call = problem.partition("say ")[2].strip("'\"")
    exec(f"def f(x): return 2\n{UNITTEST}\n{call}", {"__name__": "answer"})
    with pytest.raises(AssertionError):
        exec(f"def f(x): return 3\n{UNITTEST}\n{call}", {"__name__": "answer"})


def test_statements_in_a_list_are_one_text_and_imports_are_found_anywhere() -> None:
    assert statements_in(["assert f(1)", "assert f(2)"]) == "assert f(1)\nassert f(2)"
    assert statements_in([]) is statements_in(None) is statements_in(["a", 1]) is statements_in(" ") is None
    tests = "import numpy.linalg as la\ndef check(c):\n    from math import pi\n    from . import x"
    assert imports(tests) == {"numpy", "math"}
