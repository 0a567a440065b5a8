"""Numbers in prose: what is read, what is not, and that writing and reading agree."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.termination import ends

from nemo_gym.verifiers import numbers
from nemo_gym.verifiers.numbers import pick_number, read_number
from nemo_gym.verifiers.patterns import TEXT_LIMIT

READ = [
    ("7 + 5 = 12", "12"),
    ("**12**", "12"),
    ("$12$", "12"),
    (r"\boxed{12}", "12"),
    ("x=12", "12"),
    ("It costs $1,234,567.89 in all", "1234567.89"),
    ("1{,}000", "1000"),
    (r"1\,000", "1000"),
    (r"1,\!000", "1000"),
    ("1\u202f000\xa0000", "1000000"),
    ("-3.5", "-3.5"),
    ("\u22127", "-7"),
    ("+4", "4"),
    ("is -3", "-3"),
    (".5", "0.5"),
    ("-.5", "-0.5"),
    ("007", "7"),
    ("1.2e3", "1200"),
    ("1.2E-3", "0.0012"),
    ("1.2 x 10^3", "1200"),
    ("1.2 \xd7 10^{-3}", "0.0012"),
    ("1.2 \xd7 10\u207b\xb3", "0.0012"),
    ("6\xd710\xb3 m", "6000"),
    (r"1.2 \times 10^{2}", "120"),
    ("3/4", "3/4"),
    ("-3/4.", "-3/4"),
    (r"\frac{3}{4}", "3/4"),
    (r"\frac34", "3/4"),
    (r"\tfrac{3}{4}", "3/4"),
    (r"-\dfrac{3}{4}", "-3/4"),
    ("1 1/2", "3/2"),
    ("2\xbd", "5/2"),
    ("\xbd", "1/2"),
    ("2 \xbd cups", "5/2"),
    (r"2\frac{1}{2}", "5/2"),
    ("1\u20442", "1/2"),
    ("50%", "50"),
    ("50 %", "50"),
    (r"50\%", "50"),
    ("12cm", "12"),
    ("...12", "12"),
    ("3rd of 5", "5"),
    ("\u0663\u0664", "34"),
    ("9" * 300, "9" * 300),
    ("12,34,567", "1234567"),
    ("1'234'567", "1234567"),
    ("1\u2019234", "1234"),
    ("1_000_000", "1000000"),
    ("1 000 000", "1000000"),
    ("1.234,56", "1234.56"),
    ("10^3", "1000"),
    ("2^10", "1024"),
    ("2^{10}", "1024"),
    ("2**10", "1024"),
    ("10\xb3", "1000"),
    ("10^{-3}", "1/1000"),
    ("1.2 * 10**3", "1200"),
    ("12 cm^2", "12"),
    ("12 m\xb2", "12"),
    (r"12 \text{ cm}^2", "12"),
    ("9.8 m s^-2", "9.8"),
    ("9.8 m/s^2", "9.8"),
    ("minus 5", "-5"),
    ("negative 5", "-5"),
    ("-$5", "-5"),
    ("= - 5", "-5"),
    ("= \u20135", "-5"),
    ("\n- 5", "5"),
    ("- 5", "5"),
    ("> 5", "5"),
    ("<answer>5</answer>", "5"),
    ("=> 5", "5"),
    ("(5)", "5"),
    ("5!", "5"),
    ("5 million", "5000000"),
    ("about 2.5 thousand people", "2500"),
    ("GPT-4 says 12", "12"),
    ("12 (as GPT-4 said)", "12"),
    ("x_1 = 5", "5"),
    ("x_{1} = 5", "5"),
    ("5/hour", "5"),
    ("5 km/h", "5"),
    (r"\(12\)", "12"),
    ("**Answer:** 12", "12"),
    ("12 or so", "12"),
    ("Answer 1: 5", "5"),
    ("#### 1,234", "1234"),
    ("In 2020, 5 people", "5"),
    ("-5 \xb0C", "-5"),
    ("\u20ac-5", "-5"),
    ("12\xb0", "12"),
    (r"$\$12$", "12"),
    ("`12`", "12"),
    ("5.", "5"),
    ("5,", "5"),
    ("COVID-19 cases: 7", "7"),
    ("3 dozen", "36"),
    ("total of 12 apples and I think so", "12"),
    ("It is minus 5", "-5"),
    ("a change of -$5", "-5"),
    ("loss of -\u20ac1,200.50", "-1200.5"),
    ("The result is **-7**.", "-7"),
    ("5 %", "5"),
    ("12,5 kg is wrong, 13 is right", "13"),
    ("12 people, aged 5", "5"),
    (r"\text{12}", "12"),
    ("the answer is: 1,200,000.00", "1200000"),
]
UNSURE = [
    "",
    "none",
    "GPT4",
    "x_1",
    "1.2.3",
    "1e999999999",
    "9" * 500,
    "1/0",
    "1,23",
    "12,345,6",
    "0,123",
    "5-3",
    "(5)-3",
    "12/05/2024",
    "2024-05-12",
    "10:30",
    "3:4",
    "3 : 4",
    "1,2",
    "5-10",
    "5\u201310",
    "5 to 10",
    "1 or 2",
    "2 and 3",
    "(3, 4)",
    "[1, 2, 3]",
    r"\{2, 3\}",
    "3 + 4",
    "3 * 4",
    "3 \xd7 4",
    "3 x 4",
    r"\sqrt{2}",
    "\u221a2",
    r"3\sqrt{2}",
    r"\frac{\pi}{2}",
    r"\pi/2",
    "2\u03c0",
    r"2\pi",
    "3i",
    "2 + 3i",
    "x^2",
    "x/2",
    r"\log_2 8",
    "sqrt(2)",
    r"0.\overline{3}",
    "0.(3)",
    "101_2",
    "1011_{2}",
    "x > 5",
    "x < 5",
    "\u2265 5",
    "\xb15",
    "5 \xb1 1",
    "100 200",
    "1.2.3.4",
    "1.234.567",
    "192.168.100.200",
    "5 and a half",
    "2^0.5",
    "(-2)^2",
    "10 minus 5",
    "the answer - 5",
    "1234,567",
    "x - 3",
    "1e5x",
    "2**0.5",
    "555-1234",
    r"\frac{x}{2}",
    r"\frac{2}{x}",
    "between 5 and 10",
    "either 3 or 4",
    "-5 or 5",
    "5/x, where x = 3:4",
    "1.5:1",
    "log(100)",
    r"\ln 2",
    r"e^{2}",
    r"0.\dot{3}",
    "3\u00d74",
    r"3 \times 4",
    "4 - 2",
    "7 times 8",
    "12 345",
    "5 or 6 (not sure)",
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_the_last_number_of_a_text_is_read(text, value):
    found = pick_number(text)
    assert found is not None
    assert found.value == Fraction(value)


@pytest.mark.parametrize("text", UNSURE)
def test_nothing_comes_out_where_it_is_not_sure(text):
    assert pick_number(text) is None


def test_the_first_number_can_be_asked_for():
    assert pick_number("12 then 13", "first").text == "12"
    assert pick_number("12 = 7 + 5", "first").value == 12
    assert pick_number("3 + 4 = 7", "first") is None
    assert pick_number("(3, 4)", "first") is None


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (12, 12),
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        ("$1,000", 1000),
        ("#### 18", 18),
        ("18 cm^2", 18),
        (r"\frac{3}{4}", Fraction(3, 4)),
        ("x=5", 5),
        ("3 million", 3_000_000),
    ],
)
def test_an_expected_answer_is_a_number_or_text_with_one(value, number):
    assert read_number(value).value == number


@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        "twelve",
        "1 or 2",
        float("nan"),
        float("inf"),
        [1],
        "10:30",
        r"\frac{\pi}{2}",
        "2 + 3i",
        "1,5",
    ],
)
def test_an_expected_answer_that_is_not_one_number_is_none(value):
    assert read_number(value) is None


def test_a_percentage_and_a_scale_have_two_readings():
    assert pick_number("5 %").readings == (5, Fraction(1, 20))
    assert pick_number("5k").readings == (5, 5000)
    assert pick_number("5 million").readings == (5_000_000, 5)
    assert read_number("5 million").accepted == (5_000_000,)
    assert read_number("5 %").accepted == (5, Fraction(1, 20))


@pytest.mark.parametrize("before", [0, 10, 1_000, 2_040, 2_050, 4_090, 4_100, 30_000])
@pytest.mark.parametrize("after", [0, 10, 1_000, 2_040, 2_050, 4_090, 4_100, 30_000])
def test_the_last_number_is_found_wherever_in_a_long_text_it_stands(before, after):
    found = pick_number("7 " * (before // 2) + "words -1,234 = 1/2 " + "x" * after)
    assert found is not None
    assert found.text == "1/2"


def test_a_number_beyond_the_bound_is_not_read():
    assert pick_number("7 " + "x " * TEXT_LIMIT) is None
    assert pick_number("x " * TEXT_LIMIT + "7", "first") is None


@given(st.integers(-(10**30), 10**30))
def test_an_integer_is_read_as_it_is_written_with_or_without_separators(number):
    assert (pick_number(f"so it is {number}.").text, pick_number(f"{number}").value) == (str(number), number)
    assert pick_number(f"so it is {number:,}!").value == number


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6))
def test_a_decimal_is_read_exactly(number):
    found = pick_number(f"= {number:f}")
    assert found is not None
    assert found.value == Fraction(number)


@given(st.text(alphabet="0123456789.,-+/eE %^x*{}\\frac \u00bd\u00b2") | st.text())
def test_any_text_is_read_without_an_error(text):
    pick_number(text)
    pick_number(text, "first")
    read_number(text)


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1 ",
        "1/",
        "1,",
        "1,111",
        "1.",
        "1e",
        "-",
        r"\frac{",
        "1 x 10^",
        "111 1/",
        "111 ",
        "1^",
        "\u00bd",
        "\u00b2",
    ],
)
@pytest.mark.slow
def test_long_texts_are_read_to_their_end(piece):
    with ends():
        pick_number(piece * (100_000 // len(piece)))
        read_number(piece * (100_000 // len(piece)))


_WORDS = [
    "The",
    "answer",
    "is",
    "x",
    "i",
    "e",
    "pi",
    "and",
    "or",
    "to",
    "a",
    "half",
    "####",
    "two",
    "hours",
    "ft",
]
_TRIGGERS = [
    "minus",
    "Negative",
    "sqrt",
    "log",
    "ln",
    "exp",
    "million",
    "dozen",
    "k",
    "%",
    "-",
    "+",
    "*",
    "/",
    "^",
]
_MARKS = [" ", "  ", "\n", ":", ",", ".", ": ", ", ", ". ", "(", ")", "$", "**", "_", "", "'"]
_NUMBERS = [
    "0",
    "7",
    "42",
    "007",
    "1000",
    "123456789012345",
    "1234567890123456",
    "3.5",
    "12,5",
    "1,000",
    "-3",
]


@given(
    st.lists(st.sampled_from([*_WORDS, *_TRIGGERS, *_MARKS, *_MARKS, *_NUMBERS]), max_size=12).map("".join)
)
def test_the_quick_way_to_a_lone_number_finds_what_the_long_one_finds(text: str):
    for which in ("last", "first"):
        assert pick_number(text, which) == numbers._searched(text, which)


@pytest.mark.parametrize("word", [*_WORDS, *_TRIGGERS])
@pytest.mark.parametrize("after", ["", ".", " ", ".\n", ","])
@pytest.mark.parametrize("between", [" ", ": ", ", ", "\n", ". "])
def test_no_word_before_a_lone_number_changes_what_the_quick_way_finds(word: str, between: str, after: str):
    for start in ("", "So it is ", "x" * 40 + " ", "x" * 30, "####", "#"):
        text = f"{start}{word}{between}12{after}"
        assert pick_number(text) == numbers._searched(text, "last")
