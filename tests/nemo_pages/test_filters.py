"""How values are written."""

from __future__ import annotations

import math

import pytest

from nemo_pages import filters


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0"), (1234567, "1,234,567"), (3.0, "3"), (0.41234, "0.412"), (12345.6, "12,346")),
        *((-2.5, "\u22122.5"), (3e-05, "3e\u22125"), (math.inf, "\u221e")),
    ],
)
def test_numbers_have_few_digits_and_a_true_minus(value, text):
    assert filters.number(value) == text


@pytest.mark.parametrize("value", [None, math.nan])
def test_what_does_not_exist_is_said_to_readers_of_screens_too(value):
    assert "none" in filters.number(value)
    assert filters.duration(None) == filters.size(None) == filters.percent(None) == filters.NOTHING


def test_a_time_has_utc_for_machines_people_and_on_hover():
    assert filters.ago(1_800_000_000) == (
        '<time datetime="2027-01-15T08:00:00Z" title="2027-01-15 08:00:00 UTC" data-time="ago">'
        "2027-01-15 08:00 UTC</time>"
    )
    assert 'data-time="moment"' in filters.moment(1_800_000_000)


@pytest.mark.parametrize("seconds", [None, math.nan, 1e30, -1e30])
def test_a_time_that_no_calendar_has_is_left_out(seconds):
    assert filters.moment(seconds) == filters.NOTHING
