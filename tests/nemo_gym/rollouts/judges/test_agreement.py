"""Cohen's kappa and its standard error."""

import math
import random
import statistics

import pytest

from nemo_gym.rollouts.judges.agreement import cohens_kappa, consensus


def table(counts):
    return [(i, j) for i, row in enumerate(counts) for j, number in enumerate(row) for _ in range(number)]


@pytest.mark.parametrize(
    ("counts", "kappa"),
    [
        ([[20, 5], [10, 15]], 0.4),
        ([[45, 15], [25, 15]], 0.1304),
        ([[25, 35], [5, 35]], 0.2593),
        ([[10, 0], [0, 10]], 1.0),
        ([[0, 10], [10, 0]], -1.0),
    ],
)
def test_kappa_of_published_tables(counts, kappa):
    assert cohens_kappa(table(counts))[0] == pytest.approx(kappa, abs=5e-5)


def test_the_standard_error_is_the_published_one():
    """Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions, table 18.1: 0.68 with 0.087."""
    kappa, error = cohens_kappa(table([[75, 1, 4], [5, 4, 1], [0, 0, 10]]))
    assert kappa == pytest.approx(0.68, abs=0.005)
    assert error == pytest.approx(0.087, abs=0.001)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_the_standard_error_is_the_spread_of_kappa_over_samples(weights):
    random_ = random.Random(3)
    cells = [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 1)]
    found = [cohens_kappa(random_.choices(cells, [5, 2, 4, 2, 6, 1], k=200), weights) for _ in range(300)]
    spread = statistics.stdev(kappa for kappa, _ in found)
    assert spread == pytest.approx(statistics.fmean(error for _, error in found), rel=0.15)


def test_near_scores_agree_partly_with_weights():
    pairs = [(1, 2), (2, 1), (3, 3), (10, 9), (9, 10), (1, 1)]
    none, linear, quadratic = (cohens_kappa(pairs, weights)[0] for weights in ("none", "linear", "quadratic"))
    assert none < linear < quadratic < 1


@pytest.mark.parametrize("pairs", [[], [(1, 1), (1, 1)]])
def test_where_kappa_is_not_defined_there_is_none(pairs):
    assert cohens_kappa(pairs) == (None, None)


def test_perfect_agreement_has_no_error():
    kappa, error = cohens_kappa([("a", "a"), ("b", "b")])
    assert (kappa, error) == (1.0, 0.0)
    assert math.isfinite(error)


@pytest.mark.parametrize(
    ("said", "together"),
    [
        ([3.0], 3.0),
        ([2.0, 4.0, 4.0], 4.0),
        ([2.0, 4.0, 3.0], 3.0),
        ([2.0, 4.0], 3.0),
        (["good", "bad", "good"], "good"),
        (["good", "bad"], None),
        ([], None),
    ],
)
def test_several_people_say_together_what_most_of_them_say(said, together):
    assert consensus(said) == together
