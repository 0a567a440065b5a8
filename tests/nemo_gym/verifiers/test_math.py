"""Equal expressions in different forms, by math-verify in a process with a limit of time."""

import pytest
from tests.verifier_answers import graded, spoken, verdicts

from nemo_gym.types import RolloutFailedError
from nemo_gym.verifiers.math import grader
from nemo_gym.verifiers.registry import load_verifier

CASES = [
    (r"\frac{1}{2}", "so it is 0.5", 1.0),
    (r"\frac12", r"The answer is \boxed{\dfrac{1}{2}}.", 1.0),
    ("x^2+2x+1", r"$(x+1)^2$", 1.0),
    ("$(1,2)$", r"\boxed{(1, 2)}", 1.0),
    ("18", "9 + 8 = 17", 0.0),
    (18, "18", 1.0),
    ("18", "I do not know", 0.0),
    ("18", r"\boxed{\frac{", 0.0),
]


@pytest.mark.slow
def test_equal_expressions_are_right_whatever_their_form():
    rows = [({"expected_answer": right}, answer) for right, answer, _ in CASES]
    found = verdicts({"type": "math", "timeout_seconds": 120, "processes": 1}, rows)
    assert [verdict.reward for verdict in found] == [reward for _, _, reward in CASES]
    assert found[1].extracted_answer == "1/2"
    assert found[6].extracted_answer is None


@pytest.mark.slow
def test_one_of_several_right_answers_is_enough():
    row = {"expected_answer": ["7", "8"]}
    (verdict,) = verdicts({"type": "math", "timeout_seconds": 120}, [(row, "8")])
    assert verdict.reward == 1.0


@pytest.mark.slow
def test_an_answer_that_takes_too_long_is_an_error_and_no_wrong_answer():
    verifier = load_verifier({"type": "math", "timeout_seconds": 2, "processes": 1})
    with pytest.raises(RolloutFailedError, match=r"needs more than 1 s|took more than"):
        graded(verifier, [({"expected_answer": "9^{9^{9}}"}, "$9^{9^{9}}+1$")])


def test_rows_need_a_right_answer():
    assert load_verifier({"type": "math"}).check_row({}) == "no 'expected_answer'"


@pytest.mark.slow
def test_the_function_of_the_process_grades_without_one():
    grade = grader(6, strict=True, seconds=240)
    assert grade(spoken("2/4").text, ["0.5"])["reward"] == 1.0
