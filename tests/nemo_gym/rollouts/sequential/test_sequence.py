"""Limits that hold whenever one looks: checked on many drawn runs, against the interval that does not."""

import random
from functools import cache

import pytest

from nemo_gym.rollouts.scores.statistics import ClusterSums, clustered_interval
from nemo_gym.rollouts.sequential.sequence import ConfidenceSequence

ALPHA = 0.05
RUNS, TASKS = 150, 100


def drawn(rng, share):
    values = [float(at < round(share * TASKS)) for at in range(TASKS)]
    rng.shuffle(values)
    return values


def betting(values):
    sequence = ConfidenceSequence(len(values), alpha=ALPHA, half_width=0.1)
    for value in values:
        sequence.take(value)
        yield sequence.low, sequence.high


def repeated(values):
    """The usual interval, made again after every task."""
    sums = ClusterSums()
    for value in values:
        sums.add(value, 1)
        found = clustered_interval(sums)
        yield found.low, found.high


@cache
def share_of_misses(intervals, share):
    """How many runs have an interval somewhere that does not hold the mean of all their tasks."""
    rng, missed = random.Random(7), 0
    for _ in range(RUNS):
        values = drawn(rng, share)
        mean = sum(values) / TASKS
        missed += any(not low - 1e-9 <= mean <= high + 1e-9 for low, high in intervals(values))
    return missed / RUNS


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.85])
def test_limits_hold_at_all_looks_at_once_as_often_as_they_say(share):
    assert share_of_misses(betting, share) <= ALPHA


@pytest.mark.parametrize("share", [0.5, 0.85])
def test_the_usual_interval_looked_at_again_and_again_does_not(share):
    assert share_of_misses(repeated, share) > 2 * ALPHA


def test_after_the_last_value_both_limits_are_the_mean():
    for values in ([0.25, 1.0, 0.0, 0.5], [1.0] * 7, [0.0] * 7, [0.3]):
        *_, (low, high) = betting(values)
        assert low == pytest.approx(sum(values) / len(values))
        assert high == pytest.approx(sum(values) / len(values))


def test_limits_contain_what_the_other_values_could_still_make_of_the_mean():
    found = list(betting([1.0] * 5 + [0.0] * 5))
    for seen, (low, high) in enumerate(found, start=1):
        total = min(seen, 5)
        assert low >= total / 10 - 1e-12
        assert high <= 1 - (seen - total) / 10 + 1e-12
        assert low <= 0.5 <= high


def test_a_value_that_is_not_known_widens_the_limits_by_what_it_may_be():
    known, unknown = (ConfidenceSequence(4, alpha=ALPHA, half_width=0.1) for _ in range(2))
    for value in (1.0, 0.0, 1.0):
        known.take(value)
        unknown.take(value)
    known.take(0.5)
    unknown.take(0.0, 1.0)
    assert (known.low, known.high) == (pytest.approx(0.625), pytest.approx(0.625))
    assert (unknown.low, unknown.high) == (pytest.approx(0.5), pytest.approx(0.75))


def test_it_needs_few_more_values_than_an_interval_that_may_be_looked_at_once():
    """1.96² · 0.7 · 0.3 / 0.05² = 323 of an endless set are 235 of 860."""
    rng, stops = random.Random(3), []
    for _ in range(5):
        values = [float(rng.random() < 0.7) for _ in range(860)]
        widths = ((high - low) / 2 for low, high in betting_for(values, 0.05))
        stops.append(next(at for at, width in enumerate(widths, start=1) if width <= 0.05))
    assert sum(stops) / len(stops) < 1.6 * 235


def betting_for(values, half_width):
    sequence = ConfidenceSequence(len(values), alpha=ALPHA, half_width=half_width)
    for value in values:
        sequence.take(value)
        yield sequence.low, sequence.high


def test_a_mean_is_called_larger_or_smaller_only_where_it_is():
    rng, wrong, decided = random.Random(11), 0, 0
    for _ in range(100):
        values = [rng.choice((0.0, 0.5, 0.5, 1.0)) for _ in range(60)]
        mean, sequence = sum(values) / 60, ConfidenceSequence(60, alpha=ALPHA, versus=0.5)
        for value in values:
            sequence.take(value)
            if sequence.is_above(0.5) or sequence.is_below(0.5):
                decided += 1
                wrong += sequence.is_above(0.5) != (mean > 0.5)
                break
        else:
            assert mean == 0.5
    assert decided > 80
    assert wrong <= 5
