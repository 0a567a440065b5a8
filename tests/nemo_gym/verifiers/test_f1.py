"""F1 over words, as SQuAD defines it."""

import pytest
from tests.verifier_answers import verdicts

from nemo_gym.verifiers.f1 import f1, normalized
from nemo_gym.verifiers.registry import load_verifier


@pytest.mark.parametrize(
    ("answer", "right", "value"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1.0),
        ("in Paris, France", "Paris", 0.5),
        ("a an the", "Paris", 0.0),
        ("", "Paris", 0.0),
        ("to be or not to be", "to be", 2 * (2 / 6) * 1 / (2 / 6 + 1)),
        ("theatre", "the atre", 0.0),
    ],
)
def test_words_are_compared_as_the_evaluation_script_of_squad_does_it(answer, right, value):
    assert f1(normalized(answer), normalized(right)) == pytest.approx(value)


def test_the_right_answer_that_fits_best_counts():
    row = {"gold": ["Paris", "the city of Paris"]}
    (verdict,) = verdicts({"type": "f1", "answer_field": "gold"}, [(row, "City of Paris.")])
    assert (verdict.reward, verdict.extracted_answer) == (1.0, "city of paris")
    assert verdict.metrics == {"exact_match": 1.0}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"gold": "x"}, "no 'expected_answer'; answer_field names the field, one of gold"),
        ({"expected_answer": []}, "no 'expected_answer'"),
        ({"expected_answer": [True]}, "neither text nor a number: True"),
        ({"expected_answer": " "}, "'expected_answer' is empty"),
        ({"expected_answer": ["x", 3]}, None),
    ],
)
def test_rows_need_texts_to_compare_with(row, problem):
    found = load_verifier({"type": "f1"}).check_row(row)
    assert (found is None) if problem is None else (problem in found)
