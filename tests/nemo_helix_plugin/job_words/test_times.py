"""Times in words."""

from datetime import UTC, datetime, timedelta

import pytest

from nemo_helix_plugin.job_words import times

NOW = datetime(2026, 11, 29, 16, 43, 32, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (5, "5 s ago"),
        (150, "2 min ago"),
        (7200, "2 h ago"),
        (6.9 * 86400, "6 d ago"),
        (-90000, "in 1 d"),
    ],
)
def test_a_time_is_told_in_its_largest_unit(seconds, words):
    assert times.relative(NOW - timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize("text", ["2026-11-29T16:43:32Z", "2026-11-29T17:43:32+01:00", "2026-11-29T16:43:32"])
def test_a_time_on_the_wire_is_read_in_utc(text):
    assert times.parsed(text) == NOW


@pytest.mark.parametrize("value", [None, 3, "2026", "soon", "training-step"])
def test_what_is_no_time_is_none(value):
    assert times.parsed(value) is None
