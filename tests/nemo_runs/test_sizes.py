"""Bytes in words."""

import pytest

from nemo_runs.sizes import size_in_words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        *((0, "0 B"), (999, "999 B"), (1000, "1 kB"), (123_456_789, "123 MB"), (999_600, "1 MB")),
        *((5e15, "5 PB"), (5e18, "5000 PB"), (-7, "0 B"), (1_234_000_000, "1.23 GB")),
    ],
)
def test_a_size_is_said_with_three_digits(count, words):
    assert size_in_words(count) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (256 << 20, "256 MiB"),
        (1_073_741_823, "1 GiB"),
        (1000 << 20, "1000 MiB"),
    ],
)
def test_a_limit_that_is_set_in_binary_units_is_said_in_them(count, words):
    assert size_in_words(count, binary=True) == words
