"""Patterns that could hang are refused; those that are allowed end soon on the worst of texts."""

import pytest
from tests.termination import ends

from nemo_gym.errors import ConfigError
from nemo_gym.verifiers.patterns import TEXT_LIMIT, safe_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a*)*b",
        "(a|a)*b",
        "(a|ab)*c",
        "(?:a?b?)*c",
        "(aa?)+$",
        r"(\w+\s)*x",
        r"(\d{1,3},)+",
        r"(?:(\w)\1)*x",
        "((ab|cd)+)+",
        r"([a-z]x|\wx)*!",
        "(?=(a+)+b)x",
        ".*.*.*.*x",
    ],
)
def test_a_pattern_that_could_hang_is_refused(pattern):
    with pytest.raises(ConfigError, match=r"for ever|open repeats"):
        safe_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "(?P<a>x)(?P<a>y)", "a{2,1}", "x" * 3000])
def test_a_wrong_pattern_is_refused_with_the_reason(pattern):
    with pytest.raises(ConfigError, match=r"no regular expression|characters"):
        safe_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"answer is (\w+)", "the answer is B, no, the answer is C", "C"),
        (r"[A-D]\b", "A or B", "B"),
        (r"(?:\d{3},)+\d{3}", "123,456,789", "123,456,789"),
        (r"(?:yes|no)+", "yesno", "yesno"),
        (r"<a>(.*?)</a>", "<a>1</a><a>2</a>", "2"),
        (r"(?i)final: (.+)", "FINAL: x", "x"),
        (r"(x)?y", "y", None),
        ("z", "abc", None),
    ],
)
def test_the_first_group_of_the_last_match_is_found(pattern, text, found):
    assert safe_pattern(pattern).find(text) == found


def test_the_first_match_can_be_asked_for():
    assert safe_pattern(r"\d").find("1 2 3", "first") == "1"


def test_case_is_ignored_on_request():
    assert safe_pattern("b", ignore_case=True).find("B") == "B"
    assert safe_pattern("b").find("B") is None


def test_a_plain_pattern_sees_the_last_part_of_a_long_text():
    text = "x1" + " " * TEXT_LIMIT
    assert safe_pattern(r"x\d").find(text) is None
    assert safe_pattern(r"x\d").find(text, "first") == "x1"
    assert safe_pattern(r"x\d").find(" " * TEXT_LIMIT + "x1") == "x1"


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [
        (".*x", "a"),
        (r"\s*\s*x", " "),
        (".*a.*b", "a"),
        (".*.*.*x", "a"),
        (r"a.*a.*a.*b", "a"),
        ("[ab]{0,1000}[ab]{0,1000}c", "ab"),
        (r"(a*)\1b", "a"),
        (r"answer: (.*)(.*)x", "answer: "),
        (r"x*x*y?x*z", "x"),
        (r"([a-z]|\w)*!", "a"),
    ],
)
def test_an_allowed_pattern_ends_on_the_worst_of_texts(pattern, piece):
    safe = safe_pattern(pattern)
    with ends():
        assert safe.find(piece * 100_000) is None


def test_bounding_a_repeat_lets_a_pattern_see_more_text():
    assert safe_pattern(r"a[^\n]{0,80}b").limit > 10 * safe_pattern(r"a.*b.*c").limit
