"""Durations as people write them."""

from __future__ import annotations

import random

import pytest

from nemo_runs.durations import DurationError, duration_in_words, parse_duration, slurm_time


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 1800),
        ("90", 5400),
        ("5000", 300_000),
        (30, 1800),
        (3599, 3599 * 60),
        ("30:10", 1810),
        ("90:59", 5459),
        ("00:01", 1),
        ("04:00:00", 14_400),
        ("48:00:00", 172_800),
        ("100:59:59", 363_599),
        ("0-05", 18_000),
        ("1-02:03", 93_780),
        ("2-00:00:01", 172_801),
        (" 10:00 ", 600),
    ],
)
def test_every_form_is_read(value: object, seconds: int) -> None:
    assert parse_duration(value, where="x") == seconds


@pytest.mark.parametrize(
    ("value", "meant"), [(172_800, "48:00:00"), (3600, "01:00:00"), (14_400, "04:00:00"), (5025, "01:23:45")]
)
def test_the_integer_that_yaml_makes_of_an_unquoted_clock_is_refused(value: int, meant: str) -> None:
    with pytest.raises(DurationError, match=rf'^job\.walltime: .* quote it: "{meant}"'):
        parse_duration(value, where="job.walltime")


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        None,
        1.5,
        [],
        {},
        -5,
        "",
        "x",
        "-5",
        "1:2:3:4",
        "1-",
        "-1-2",
        "1-2:3:4:5",
        "10:75",
        "1:75:00",
        "1-1:60",
        "1d",
        "5m",
        "UNLIMITED",
        "٣",
        "1_0",
        "+5",
        "9" * 5000,
        "10 :00",
        "00:00:00",
        "0",
        0,
        "0-00",
    ],
)
def test_anything_else_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(DurationError, match=r"^a\.b: "):
        parse_duration(value, where="a.b")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "00:00:00"),
        (59, "00:00:59"),
        (86_399, "23:59:59"),
        (86_400, "1-00:00:00"),
        (1_000_000, "11-13:46:40"),
    ],
)
def test_durations_are_written_as_slurm_writes_them(seconds: int, text: str) -> None:
    assert slurm_time(seconds) == text


def test_what_is_written_is_read_back() -> None:
    numbers = random.Random(7)
    for _ in range(500):
        seconds = numbers.randrange(1, 10**8)
        assert parse_duration(slurm_time(seconds), where="x") == seconds


def test_a_negative_duration_is_not_written() -> None:
    with pytest.raises(DurationError, match="negative"):
        slurm_time(-1)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.7, "1 min"),
        (119.7, "2 min"),
        (125, "2 min 5 s"),
        (3_599.8, "1 h"),
        (3_661, "1 h 1 min"),
        (3_605, "1 h"),
        (120, "2 min"),
        (2_592_000, "30 d"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_duration_in_words_never_shows_sixty_of_a_unit(seconds, words):
    assert duration_in_words(seconds) == words


def test_short_durations_may_have_tenths():
    assert [duration_in_words(each, tenths=True) for each in (4.24, 59.94, 59.96, 61)] == [
        "4.2 s",
        "59.9 s",
        "1 min",
        "1 min 1 s",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "5 s"), (150, "2 min"), (6.9 * 86_400, "6 d"), (90_000, "1 d"), (59.7, "1 min"), (-3, "0 s")],
)
def test_one_unit_leaves_out_what_is_less(seconds: float, words: str) -> None:
    assert duration_in_words(seconds, units=1) == words
