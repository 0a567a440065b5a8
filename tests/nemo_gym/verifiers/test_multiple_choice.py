import asyncio

import pytest

from nemo_gym.types import Episode, Task
from nemo_gym.verifiers.registry import load_verifier

ROW = {"options": [{"A": "one"}, {"B": "two"}, {"C": None}], "expected_answer": "b"}


def graded(text, row=None, **options):
    verifier = load_verifier({"type": "multiple_choice", **options})
    response = {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}
    verdict = asyncio.run(verifier.verify(Task(0, 0, {**ROW, **(row or {})}), Episode(response)))
    return verdict.reward, verdict.extracted_answer


def pattern(*patterns):
    return {"template_metadata": {"output_regex": list(patterns) if len(patterns) > 1 else patterns[0]}}


@pytest.mark.parametrize(
    ("text", "row", "options", "outcome"),
    [
        (r"\boxed{B}", {}, {}, (1, "B")),
        (r"\boxed{A}", {}, {}, (0, "A")),
        ("Answer: B", {}, {}, (0, None)),
        ("Answer: B", {"grading_mode": "lenient_answer_colon"}, {}, (1, "B")),
        (r"\boxed{B}", {"grading_mode": "lenient_answer_colon"}, {}, (0, None)),
        (r"\boxed{B}", {"grading_mode": "lenient_answer_colon"}, {"grading_mode": "lenient_boxed"}, (1, "B")),
        (r"\boxed{C}", {}, {}, (0, None)),
        ("", {}, {}, (0, None)),
        (" \n", {}, {}, (0, None)),
        ("Antwort: B", {"answer_prefix": "Antwort:"}, {"grading_mode": "lenient_answer_colon_md"}, (1, "B")),
        ("choice=a choice=b", pattern(r"CHOICE=(\w)"), {}, (1, "B")),
        ("choice=z", pattern(r"choice=(\w)"), {}, (0, "Z")),
        ("choice=two", pattern(r"choice=(\w+)"), {}, (1, "B")),
        (r"nothing \boxed{B}", pattern(r"choice=(\w)"), {}, (1, "B")),
        (r"choice=what \boxed{B}", pattern(r"choice=(\w+)"), {}, (1, "B")),
        ("x=A y=B", pattern(r"z=(\w)", r"y=(\w)", r"x=(\w)"), {}, (1, "B")),
        ("B", pattern(r"\b[A-D]\b"), {}, (1, "B")),
    ],
)
def test_a_text_is_graded(text, row, options, outcome):
    assert graded(text, row, **options) == outcome


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({}, None),
        ({"options": None}, "no 'options'"),
        ({"options": []}, "no 'options'"),
        ({"expected_answer": None}, "no 'expected_answer'"),
        (
            {"options": ["12", "13"]},
            '\'options\' is not a list like [{"A": "…"}, {"B": "…"}] but [\'12\', \'13\']',
        ),
        (
            {"options": {"text": ["12", "13"], "label": ["A", "B"]}},
            "the label 'TEXT', which is not one of the",
        ),
        (
            {"options": [{"1": "12"}, {"2": "13"}], "expected_answer": "2"},
            "the label '1', which is not one of",
        ),
        ({"options": [{"A": "12"}, {"A": "13"}]}, "'options' has the letter A twice"),
        ({"options": [{"A": "12"}, {"B": None}], "expected_answer": "A"}, None),
        ({"expected_answer": 1}, "'expected_answer' is 1, not the letter of an option"),
        ({"expected_answer": "C"}, "is not one of the options A, B"),
        ({"expected_answer": "two"}, "is not one of the options A, B"),
        ({"grading_mode": "kind"}, "'grading_mode' 'kind' is not one of"),
        (pattern("("), "not a regular expression"),
        (pattern("(a+)+"), None),
        ({"template_metadata": {"output_regex": [3]}}, "is not text"),
        ({"options": None, "expected_answer": "Z", **pattern(r"(\w)")}, None),
    ],
)
def test_a_row_is_checked_before_the_first_request(row, problem):
    found = load_verifier({"type": "multiple_choice"}).check_row({**ROW, **row})
    assert found is problem is None or problem in found
