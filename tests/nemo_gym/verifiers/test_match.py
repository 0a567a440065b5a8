import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.errors import ConfigError
from nemo_gym.types import Episode, Task
from nemo_gym.verifiers import patterns
from nemo_gym.verifiers.match import MatchVerifier, _is_plain
from nemo_gym.verifiers.numbers import read_number
from nemo_gym.verifiers.registry import load_verifier

SOLUTION = "She sells 16 - 3 - 4 = <<16-3-4=9>>9 eggs.\nShe makes 9 * 2 = $<<9*2=18>>18.\n#### 18"


def match(**options):
    verifier = load_verifier({"type": "match", **options}).inner
    assert isinstance(verifier, MatchVerifier)
    return verifier


def graded(verifier, text, expected):
    verdict = verifier.grade(text, expected)
    return verdict.reward, verdict.extracted_answer


@pytest.mark.parametrize(
    ("options", "text", "expected", "reward", "answer"),
    [
        ({}, " Paris\n", "Paris", 1, "Paris"),
        ({}, "paris", "Paris", 0, "paris"),
        ({"ignore_case": True}, "PARIS", "Paris", 1, "PARIS"),
        ({"ignore_case": True}, "STRASSE", "stra\u00dfe", 1, "STRASSE"),
        ({"strip": False}, " Paris", "Paris", 0, " Paris"),
        ({}, "Rome", ["Paris", "Rome"], 1, "Rome"),
        ({}, "12", 12, 1, "12"),
        ({}, "  \n", "Paris", 0, None),
        ({"mode": "regex", "pattern": r"is (\w+)"}, "it is A. it is B.", "B", 1, "B"),
        ({"mode": "regex", "pattern": r"is (\w+)", "which": "first"}, "it is A. it is B.", "B", 0, "A"),
        ({"mode": "regex", "pattern": r"IS (\w+)", "ignore_case": True}, "it is b", "B", 1, "b"),
        ({"mode": "regex", "pattern": r"is (\w+)"}, "nothing", "B", 0, None),
        ({"mode": "numeric"}, "7 + 5 = 12", "12", 1, "12"),
        ({"mode": "numeric"}, "12 = 7 + 5", 12, 0, None),
        ({"mode": "numeric", "which": "first"}, "12 = 7 + 5", 12, 1, "12"),
        ({"mode": "numeric"}, "12.0", 12, 1, "12.0"),
        ({"mode": "numeric"}, "1,200", "1200", 1, "1,200"),
        ({"mode": "numeric"}, "0.1", 0.1, 1, "0.1"),
        ({"mode": "numeric"}, "12.01", 12, 0, "12.01"),
        ({"mode": "numeric", "abs_tolerance": 0.01}, "12.01", 12, 1, "12.01"),
        ({"mode": "numeric", "abs_tolerance": 0.01}, "12.011", 12, 0, "12.011"),
        ({"mode": "numeric", "rel_tolerance": 0.1}, "-110", -100, 1, "-110"),
        ({"mode": "numeric", "rel_tolerance": 0.1}, "-111", -100, 0, "-111"),
        ({"mode": "numeric", "rel_tolerance": 0.1}, "0.001", 0, 0, "0.001"),
        ({"mode": "numeric"}, "no idea", 12, 0, None),
        ({"mode": "numeric", "pattern": r"total: (.*)"}, "total: 3 + 4 = 7\nthat was 2 sums", 7, 1, "7"),
        ({"mode": "numeric"}, "5", ["4", "5"], 1, "5"),
        ({"mode": "numeric"}, "5%", "0.05", 1, "5%"),
        ({"mode": "numeric"}, "5%", 5, 1, "5%"),
        ({"mode": "numeric"}, "0.05", "5%", 1, "0.05"),
        ({"mode": "numeric"}, "5 million", 5, 1, "5 million"),
        ({"mode": "numeric"}, "5,000,000", "5 million", 1, "5,000,000"),
        ({"mode": "numeric"}, "5", "5 million", 0, "5"),
        ({"mode": "numeric"}, "1.2 \u00d7 10\u00b3", 1200, 1, "1.2 \u00d7 10^{3}"),
        ({"mode": "numeric", "answer_pattern": "#### *(.*)"}, "so $18", SOLUTION, 1, "18"),
        ({"mode": "numeric", "answer_pattern": "#### *(.*)"}, "so 9", SOLUTION, 0, "9"),
        ({"answer_pattern": "#### *(.*)"}, "18", [SOLUTION], 1, "18"),
        ({}, "caf\u00e9", "cafe\u0301", 1, "caf\u00e9"),
        ({"ignore_case": True}, "Vie\u0323\u0302t Nam", "vi\u1ec7t nam", 1, "Vie\u0323\u0302t Nam"),
        ({}, "3", 3.0, 1, "3"),
        ({}, "3.0", 3.0, 1, "3.0"),
        ({}, "3", 3.5, 0, "3"),
        ({"mode": "numeric"}, "x^2", 2, 0, None),
        ({"mode": "numeric"}, r"\sqrt{2}", 2, 0, None),
        ({"mode": "numeric"}, "It is minus 5.", 5, 0, "-5"),
    ],
)
def test_an_answer_is_compared(options, text, expected, reward, answer):
    assert graded(match(**options), text, expected) == (reward, answer)


def test_the_answer_is_taken_from_the_episode_and_the_row():
    response = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "42"}]}]}
    task = Task(0, 0, {"solution": "42"})
    verdict = asyncio.run(match(answer_field="solution").verify(task, Episode(response)))
    assert verdict.reward == 1.0


@pytest.mark.parametrize(
    ("options", "row", "problem"),
    [
        ({}, {"expected_answer": "x"}, None),
        ({}, {}, "no 'expected_answer'"),
        ({}, {"question": "1", "answer": "x"}, "answer_field names the field, one of question, answer"),
        ({}, {"expected_answer": None}, "it is null"),
        ({}, {"expected_answer": " "}, "'expected_answer' is empty"),
        ({}, {"expected_answer": ["", "x"]}, None),
        ({"mode": "numeric"}, {"expected_answer": {"value": 1}}, "neither text nor a number"),
        ({"mode": "numeric"}, {"expected_answer": SOLUTION}, "answer_pattern '#### *(.*)' takes the answer"),
        ({"mode": "numeric", "answer_pattern": "#### *(.*)"}, {"expected_answer": SOLUTION}, None),
        ({"answer_pattern": "#### *(.*)"}, {"expected_answer": "18"}, "nothing that answer_pattern finds"),
        ({"mode": "numeric", "answer_pattern": "(.*)"}, {"expected_answer": 18}, None),
        ({}, {"expected_answer": []}, "no 'expected_answer'"),
        ({"answer_field": "a"}, {"expected_answer": "x"}, "no 'a'"),
        ({}, {"expected_answer": {"x": 1}}, "neither text nor a number"),
        ({}, {"expected_answer": [True]}, None),
        ({"mode": "numeric"}, {"expected_answer": [True]}, "neither text nor a number"),
        ({"mode": "numeric"}, {"expected_answer": "twelve"}, "not one number"),
        ({"mode": "numeric"}, {"expected_answer": ["1", "1 or 2"]}, "not one number"),
        ({"mode": "numeric"}, {"expected_answer": 1.5}, None),
    ],
)
def test_a_row_is_checked_before_the_first_request(options, row, problem):
    found = match(**options).check_row(row)
    assert found is problem is None or problem in found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "regex"}, "needs a pattern"),
        ({"pattern": "x"}, "for the modes regex and numeric"),
        ({"mode": "regex", "pattern": "("}, r"benchmark\.verifier\.pattern .*not a regular expression"),
        ({"abs_tolerance": 1}, "for the mode numeric"),
        ({"mode": "numeric", "abs_tolerance": -1}, r"benchmark\.verifier\.abs_tolerance"),
        ({"mode": "numeric", "rel_tolerance": float("nan")}, r"benchmark\.verifier\.rel_tolerance"),
        ({"mode": "close"}, r"benchmark\.verifier\.mode"),
        ({"answer_pattern": "[a"}, r"benchmark\.verifier\.answer_pattern .*not a regular expression"),
        ({"patern": "x"}, r"unknown option benchmark\.verifier\.patern \(did you mean 'pattern'\?\)"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_their_path(options, message):
    with pytest.raises(ConfigError, match=message):
        match(**options)


@given(st.integers(-(10**15) + 1, 10**15 - 1) | st.from_regex(r"\A-?[0-9]{1,15}\Z"))
@pytest.mark.slow
def test_what_counts_as_plainly_a_number_is_one(answer):
    assert _is_plain(answer)
    assert read_number(answer) is not None


@pytest.mark.parametrize(
    "answer", [True, None, "", "-", "1.5", "1e3", "1,000", "\uff11", "1\n", "1 2", [], 1.5]
)
def test_anything_else_is_read(answer):
    assert not _is_plain(answer)


def test_a_right_answer_that_no_pattern_finds_in_time_is_refused_before_the_first_request(monkeypatch):
    monkeypatch.setattr(patterns, "TIME_LIMIT", 0.1)
    found = match(answer_pattern="(a+)+$").check_row({"expected_answer": "a" * 30_000 + "b"})
    assert found.startswith(
        "'expected_answer' could not be read with answer_pattern: the pattern '(a+)+$' took"
    )


def test_an_answer_that_a_pattern_does_not_read_in_time_gets_no_grade(monkeypatch):
    monkeypatch.setattr(patterns, "TIME_LIMIT", 0.1)
    verifier = match(mode="regex", pattern="(a+)+$")
    assert verifier.grade("aaa", "aaa").reward == 1
    with pytest.raises(patterns.PatternTimeoutError, match=r"the pattern '\(a\+\)\+\$' took"):
        verifier.grade("a" * 30_000 + "b", "a")
