"""Patterns mean what they mean to `re`, and end within their time on the worst of texts."""

# ruff: noqa: RUF001 - texts in other scripts

import contextlib
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.termination import ends

from nemo_gym.errors import ConfigError
from nemo_gym.verifiers import patterns
from nemo_gym.verifiers.patterns import TEXT_LIMIT, PatternTimeoutError, safe_pattern


@pytest.mark.parametrize(
    "pattern",
    ["(", "[", "*a", "(?P<a>x)(?P<a>y)", "a{2,1}", "x" * 3000, r"\p{L}", r"(?|a|b)", r"(?R)", r"\K", "a**"],
)
def test_a_wrong_pattern_is_refused_with_the_reason(pattern):
    with pytest.raises(ConfigError, match=r"not a regular expression|characters"):
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
        (r"(?<=#### )\d+(?!\d|%)", "#### 17", "17"),
        (r"(['\"])(\w+)\1", "'yes'", "'"),
        (r"(?:(\w+)\s)*", "of the many", "the"),
        (r"(?:a?b?)*c", "ababc", "ababc"),
    ],
)
def test_the_first_group_of_the_last_match_is_found(pattern, text, found):
    assert safe_pattern(pattern).find(text, "first" if text == "of the many" else "last") == found


def test_the_first_match_can_be_asked_for():
    assert safe_pattern(r"\d").find("1 2 3", "first") == "1"


def test_case_is_ignored_on_request():
    assert safe_pattern("b", ignore_case=True).find("B") == "B"
    assert safe_pattern("b").find("B") is None


@pytest.mark.parametrize("pattern", [r"x\d", r"x\d.*?", r"(?:x|y)+\d"])
def test_a_pattern_sees_the_last_part_of_a_long_text(pattern):
    text = "x1" + " " * TEXT_LIMIT
    assert safe_pattern(pattern).find(text) is None
    assert safe_pattern(pattern).find(text, "first") == "x1"
    assert safe_pattern(pattern).find(" " * TEXT_LIMIT + "x1") == "x1"


CATASTROPHIC = [
    ("(a+)+$", "a" * 30_000 + "b"),
    ("(a|a)*$", "a" * 30_000 + "b"),
    (r"(\w+\s?)*$", "ab " * 10_000 + "!"),
    ("(x+x+)+y?$", "x" * 30_000 + "z"),
    ("((ab|cd)+)+$", "abcd" * 8_000 + "x"),
    ("a.*a.*a.*b", "a" * 30_000),
]


@pytest.mark.parametrize("which", ["first", "last"])
@pytest.mark.parametrize(("pattern", "text"), CATASTROPHIC)
def test_a_pattern_that_would_go_on_for_ever_is_ended_and_named(pattern, text, which, monkeypatch):
    monkeypatch.setattr(patterns, "TIME_LIMIT", 0.1)
    with ends(), pytest.raises(PatternTimeoutError) as caught:
        safe_pattern(pattern).find(text, which)
    assert f"the pattern '{pattern}' took more than 0.1 s" in str(caught.value)
    assert caught.value.failure_class == "verifier_error"


def test_the_time_is_that_of_all_matches_together(monkeypatch):
    monkeypatch.setattr(patterns, "TIME_LIMIT", 0.1)
    with ends(), pytest.raises(PatternTimeoutError):
        safe_pattern("(?:a?){14}(?:a{14})?b|c").find("a" * 14 + "c" + ("a" * 13 + "c") * 2_300)


@pytest.mark.slow
def test_the_time_limit_itself_holds():
    with ends(), pytest.raises(PatternTimeoutError, match=f"more than {patterns.TIME_LIMIT:g} s"):
        safe_pattern("(a+)+$").find("a" * 50_000 + "b")


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [
        (".*x", "a"),
        (r"\s*\s*x", " "),
        (".*.*.*x", "a"),
        ("[ab]{0,1000}[ab]{0,1000}c", "ab"),
        (r"(a*)\1b", "a"),
        (r"x*x*y?x*z", "x"),
        (r"([a-z]|\w)*!", "a"),
        ("(a+)+b", "a"),
        (r"(?:(\w)\1)*x", "a"),
        ("(?=(a+)+b)x", "a"),
    ],
)
def test_a_pattern_ends_on_a_long_text_without_a_match(pattern, piece, monkeypatch):
    monkeypatch.setattr(patterns, "TIME_LIMIT", 0.1)
    with ends(), contextlib.suppress(PatternTimeoutError):
        assert safe_pattern(pattern).find(piece * 100_000) is None


pytestmark = pytest.mark.filterwarnings("ignore:Possible .*set:FutureWarning")  # `re`, of its own future

CHARACTERS = [
    chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) not in {"Cn", "Cs"}
]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\d",
        r"\D",
        r"[\w]",
        r"[\W]",
        r"[\s]",
        r"[\S]",
        r"[^\W]",
        r"[^\S]",
        "(?a)[\\W]",
    ],
)
def test_classes_of_characters_are_those_of_re(pattern):
    text = "".join(CHARACTERS)
    compiled = safe_pattern(pattern).compiled
    assert compiled.findall(text) == re.findall(pattern, text)


ANSWER_PATTERNS = [
    # GSM8K, MMLU, GPQA, BBH, DROP and others, as public harnesses take answers out of texts.
    r"#### (\-?[0-9\.\,]+)",
    r"(-?[$0-9.,]{2,})|(-?[0-9]+)",
    r"The answer is (\-?[0-9\.\,]+)",
    r"(?<=The answer is )(.*)(?=.)",
    r"(?<=the answer is )(.*)(?=.)",
    r"(\([A-Z]\))",
    r":[\s]*([A-D])",
    r"answer is \(?([ABCDEFGHIJ])\)?",
    r".*[aA]nswer:\s*([A-J])",
    r"(?s)\b[A-J]\b(?!.*\b[A-J]\b)",
    r"(?i)Answer[ \t]*:[ \t]*\$?([A-D])\$?",
    r"(?i)Answer\s*:\s*([^\n]+)",
    r"(?i)(?:Answer\s*:|答案\s*：|정답\s*:|উত্তর\s*:|उत्तर\s*:|الإجابة:)[ \t]*([A-D]|[أ-د]|[অ]|[ব]|[Ａ]|[Ｂ])",
    r"(?i)[\*\_]{0,2}Answer[\*\_]{0,2}\s*:[\s\*\_]{0,2}\s*([A-Z])(?![a-zA-Z0-9])",
    r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}",
    r"\$?\\boxed{([^}]*)}\$?",
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w.])",
    r"^\s*(yes|no|true|false)\b",
    r"(?m)^\s*[Ff]inal [Aa]nswer\s*[:：]\s*(\S.*?)\s*$",
    r"<answer>\s*(.*?)\s*</answer>",
    r"```(?:json|python)?\n([\s\S]*?)```",
    r"^(?:.* is )?(\w[^.]*?)\W*$",
    "#### *(.*)",
    r"\b([A-D])\b",
    r"(\w+)\W*$",
    r"[\w'-]+",
    r"\{\"answer\": ?\"(\w)\"\}",
    r"{(\w)}",
]
TEXTS = [
    "18 - 3 = 15\n#### 1,500.25",
    "So the answer is (C). Wait. The answer is 42.",
    "Answer: $B$\nfinal answer: yes ",
    "**Answer:** D",
    "答案 ： B\n정답: Ａ",
    "উত্তর : ব\nउत्तर: C",
    r"thus $\boxed{\frac{1}{2}}$ and \boxed{B}",
    "<answer> two words </answer><answer>B</answer>",
    '```json\n{"answer": "A"}\n```',
    "{A} x² = 4 का_नाम naïve don't cafe\u0301 B\u0301 A",
    "Yes, $1,234.50 is it.\x1c Final Answer： blue\x85\u2028",
    "",
]


@pytest.mark.parametrize("ignore_case", [False, True])
@pytest.mark.parametrize("pattern", ANSWER_PATTERNS)
def test_answer_patterns_of_public_harnesses_find_what_they_find_with_re(pattern, ignore_case):
    for text in TEXTS:
        found = list(re.compile(pattern, re.IGNORECASE if ignore_case else 0).finditer(text))
        wanted = [match[min(1, match.re.groups)] for match in found] or [None]
        safe = safe_pattern(pattern, ignore_case=ignore_case)
        assert [safe.find(text, "first"), safe.find(text)] == [wanted[0], wanted[-1]], text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a{e<=1}", "a{e<=1} b"),
        ("(?:cat){e}", "cat{e} bat"),
        ("[[:alpha:]]+", "x a] :]"),
        ("[[(]B[])]", "[B] (B)"),
        ("[a||b]+", "a|b"),
        (r"(?x) \[ ( \w+ )  # the letter, in [brackets", "[B]"),
        ("(?#[not a set)(b)", "b"),
        ("x{,2}y{}", "xxy{}"),
        (r"\N{DIGIT ONE}\x31\u0031\061", "1111"),
        (r"[^]\w]+", "ab ] !?"),
        (r"[\w-]+", "well-known"),
        (r"\bক\b", "ক কা"),
    ],
)
def test_what_is_literal_to_re_is_no_syntax(pattern, text):
    found = [match[min(1, match.re.groups)] for match in re.finditer(pattern, text)]
    assert [safe_pattern(pattern).find(text, "first"), safe_pattern(pattern).find(text)] == [
        found[0],
        found[-1],
    ]


ATOMS = st.sampled_from(
    [
        *"abx.^$:K",
        *(r"\w", r"\W", r"\s", r"\S", r"\d", r"\b", r"\1", r"\[", r"\.", "[ab]", "[^a]", "[]a]", r"[\w-]"),
        *(r"[^\w\s]", r"[\W_]", r"[\S]", "[[(]", "{e}", "{", "{}", "é", "²", "\u09be"),
    ]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"({one})"),
        st.tuples(st.sampled_from(["?=", "?!", "?<=", "?<!", "?i:"]), inner).map(
            lambda two: f"({two[0]}{two[1]})"
        ),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{,2}"])).map("".join),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("abxK.:é²\x1c\n[](){}e-_\u09be 1", min_size=1, max_size=8), st.booleans())
@pytest.mark.slow
def test_any_pattern_finds_what_it_finds_with_re(pattern, text, ignore_case):
    try:
        compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error:
        return
    found = [match[min(1, compiled.groups)] for match in compiled.finditer(text)] or [None]
    safe = safe_pattern(pattern, ignore_case=ignore_case)
    assert [safe.find(text, "first"), safe.find(text)] == [found[0], found[-1]]
