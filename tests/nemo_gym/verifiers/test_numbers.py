"""Numbers in prose: what is read, what is not, and that writing and reading agree."""

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.verifiers.numbers import pick_number, read_number
from nemo_gym.verifiers.patterns import TEXT_LIMIT


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7 + 5 = 12", "12"),
        ("7 + 5 = 12.", "12"),
        ("**12**", "12"),
        ("$12$", "12"),
        (r"\boxed{12}", "12"),
        ("x=12", "12"),
        ("It costs $1,234,567.89 in all", "1234567.89"),
        ("1{,}000", "1000"),
        (r"1\,000", "1000"),
        ("1\u202f000\u00a0000", "1000000"),
        ("1,23", "23"),
        ("12,345,6", "6"),
        ("0,123", "123"),
        ("-3.5", "-3.5"),
        ("\u22127", "-7"),
        ("+4", "4"),
        ("5-3", "3"),
        ("(5)-3", "3"),
        ("is -3", "-3"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("007", "7"),
        ("1.2e3", "1200"),
        ("1.2E-3", "0.0012"),
        ("1.2 x 10^3", "1200"),
        ("1.2 \u00d7 10^{-3}", "0.0012"),
        (r"1.2 \times 10^{2}", "120"),
        ("3/4", "3/4"),
        ("-3/4.", "-3/4"),
        (r"\frac{3}{4}", "3/4"),
        (r"-\dfrac{3}{4}", "-3/4"),
        ("1 1/2", "3/2"),
        ("12/05/2024", "2024"),
        ("50%", "50"),
        ("50 %", "50"),
        ("12cm", "12"),
        ("...12", "12"),
        ("3rd of 5", "5"),
        ("\u0663\u0664", "34"),
        ("\uff11\uff12", "12"),
        ("9" * 300, "9" * 300),
    ],
)
def test_the_last_number_of_a_text_is_read(text, value):
    found = pick_number(text)
    assert found is not None
    assert found[1] == Fraction(value)


@pytest.mark.parametrize(
    "text",
    ["", "none", "GPT4", "x_1", "1.2.3", "1e999999999", "9" * 500, "1/0", "10\u00b2x".replace("10", "")],
)
def test_what_is_no_number_is_not_read(text):
    assert pick_number(text) is None


def test_the_first_number_can_be_asked_for():
    assert pick_number("12 then 13", "first") == ("12", 12)


@pytest.mark.parametrize(
    ("value", "number"),
    [(12, 12), (0.1, Fraction(1, 10)), ("0.1", Fraction(1, 10)), ("$1,000", 1000), ("#### 18", 18)],
)
def test_an_expected_answer_is_a_number_or_text_with_one(value, number):
    assert read_number(value) == number


@pytest.mark.parametrize("value", [True, None, "twelve", "1 or 2", float("nan"), float("inf"), [1]])
def test_an_expected_answer_that_is_not_one_number_is_none(value):
    assert read_number(value) is None


@pytest.mark.parametrize("before", [0, 10, 1_000, 2_040, 2_050, 4_090, 4_100, 30_000])
@pytest.mark.parametrize("after", [0, 10, 1_000, 2_040, 2_050, 4_090, 4_100, 30_000])
def test_the_last_number_is_found_wherever_in_a_long_text_it_stands(before, after):
    found = pick_number("7 " * (before // 2) + "words -1,234 1/2 " + "x" * after)
    assert found is not None
    assert found[0] == "1/2"


def test_a_number_beyond_the_bound_is_not_read():
    assert pick_number("7 " + "x " * TEXT_LIMIT) is None
    assert pick_number("x " * TEXT_LIMIT + "7", "first") is None


@given(st.integers(-(10**30), 10**30))
def test_an_integer_is_read_as_it_is_written_with_or_without_separators(number):
    assert pick_number(f"so it is {number}.") == (str(number), number)
    assert pick_number(f"so it is {number:,}!") == (f"{number:,}", number)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6))
def test_a_decimal_is_read_exactly(number):
    found = pick_number(f"= {number:f}")
    assert found is not None
    assert found[1] == Fraction(number)


@given(st.text(alphabet="0123456789.,-+/eE %^x*{}\\frac ") | st.text())
def test_any_text_is_read_without_an_error(text):
    pick_number(text)
    read_number(text)


@pytest.mark.parametrize(
    "piece", ["1", "1 ", "1/", "1,", "1,111", "1.", "1e", "-", r"\frac{", "1 x 10^", "111 1/"]
)
def test_long_texts_take_no_long_time(piece):
    began = time.perf_counter()
    pick_number(piece * (100_000 // len(piece)))
    assert time.perf_counter() - began < 1
