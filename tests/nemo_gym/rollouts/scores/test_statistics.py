"""Estimators against published tables, closed forms and their definitions."""

import itertools
import math
import random
import statistics as std

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.rollouts.scores.quantiles import Ordered
from nemo_gym.rollouts.scores.statistics import (
    ClusterSums,
    clustered_interval,
    majority_at_k,
    mean,
    pass_at_k,
    sample_std,
    t_distribution,
    t_quantile,
    wilson,
)


def interval(tasks):
    sums = ClusterSums()
    for rewards in tasks:
        sums.add(sum(rewards), len(rewards))
    return clustered_interval(sums)


@pytest.mark.parametrize(
    ("degrees", "at_95", "at_975", "at_995"),
    [  # the usual table of Student's t
        (1, 6.314, 12.706, 63.657),
        (2, 2.920, 4.303, 9.925),
        (3, 2.353, 3.182, 5.841),
        (5, 2.015, 2.571, 4.032),
        (10, 1.812, 2.228, 3.169),
        (30, 1.697, 2.042, 2.750),
        (120, 1.658, 1.980, 2.617),
        (1_000_000, 1.645, 1.960, 2.576),
    ],
)
def test_t_quantiles_agree_with_the_published_table(degrees, at_95, at_975, at_995):
    found = [round(t_quantile(p, degrees), 3) for p in (0.95, 0.975, 0.995)]
    assert found == [at_95, at_975, at_995]


@given(st.floats(0.001, 0.999), st.integers(1, 500))
def test_the_t_quantile_undoes_the_distribution_and_is_symmetric(probability, degrees):
    value = t_quantile(probability, degrees)
    assert t_distribution(value, degrees) == pytest.approx(probability, abs=1e-9)
    assert t_quantile(1 - probability, degrees) == pytest.approx(-value, abs=1e-6)


@given(st.floats(-20, 20))
def test_t_with_one_degree_is_cauchy_and_with_two_has_its_closed_form(value):
    assert t_distribution(value, 1) == pytest.approx(0.5 + math.atan(value) / math.pi, abs=1e-8)
    assert t_distribution(value, 2) == pytest.approx(
        0.5 + value / (2 * math.sqrt(2 + value * value)), abs=1e-12
    )


@pytest.mark.parametrize("arguments", [(0, 5), (1, 5), (0.5, 0)])
def test_a_quantile_that_does_not_exist_is_refused(arguments):
    with pytest.raises(ValueError, match="probability"):
        t_quantile(*arguments)


@pytest.mark.parametrize(
    ("share", "trials", "low", "high"),
    [(0.0, 10, 0.0, 0.2775), (0.5, 10, 0.2366, 0.7634), (1.0, 10, 0.7225, 1.0), (0.1, 100, 0.0552, 0.1744)],
)
def test_wilson_intervals_agree_with_published_values(share, trials, low, high):
    assert wilson(share, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_pass(rollouts, data):
    passed = data.draw(st.integers(0, rollouts))
    k = data.draw(st.integers(1, rollouts))
    draws = list(itertools.combinations([1] * passed + [0] * (rollouts - passed), k))
    assert pass_at_k(rollouts, passed, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-8)


def test_pass_at_k_stays_exact_for_many_rollouts():
    expected = 1 - math.comb(9_000, 100) / math.comb(10_000, 100)
    assert pass_at_k(10_000, 1_000, 100) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_needs_k_rollouts(k):
    with pytest.raises(ValueError, match="rollouts"):
        pass_at_k(3, 1, k)


@pytest.mark.parametrize(
    ("answers", "scores", "value"),
    [
        ([1, 1, 2], [1, 1, 0], 1),
        ([1, 2, 2], [1, 0, 0], 0),
        ([1, 2], [1, 0], 0.5),
        ([1, 2, 3], [1, 0, 0], 1 / 3),
        ([1, 1, 2, 2, 3], [1, 1, 0, 0, 0], 0.5),
        ([0, 0, 1], [0, 0, 1], 1),
        ([0, 0], [0, 0], 0),
        ([], [], 0),
        ([1, 1], [1, 0.5], 0.75),
    ],
)
def test_majority_takes_the_most_frequent_answer_and_averages_ties(answers, scores, value):
    assert majority_at_k(answers, scores) == pytest.approx(value)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.randoms())
@pytest.mark.slow
def test_majority_does_not_depend_on_the_order_of_the_rollouts(answers, rnd):
    scores = [float(answer == 1) for answer in answers]
    pairs = list(zip(answers, scores, strict=True))
    rnd.shuffle(pairs)
    shuffled = majority_at_k([a for a, _ in pairs], [s for _, s in pairs])
    assert shuffled == pytest.approx(majority_at_k(answers, scores))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=60))
def test_with_one_rollout_a_task_the_error_is_the_plain_standard_error(rewards):
    found = interval([[reward] for reward in rewards])
    assert found.mean == pytest.approx(std.fmean(rewards))
    if found.method == "clustered_t":
        assert found.std_error == pytest.approx(std.stdev(rewards) / math.sqrt(len(rewards)), abs=1e-7)


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=6), min_size=2, max_size=30))
@pytest.mark.slow
def test_the_clustered_error_is_the_one_in_its_definition(tasks):
    found = interval(tasks)
    count = sum(map(len, tasks))
    centre = sum(map(sum, tasks)) / count
    square = sum((sum(rewards) - centre * len(rewards)) ** 2 for rewards in tasks)
    error = math.sqrt(len(tasks) / (len(tasks) - 1) * square) / count
    assert found.mean == pytest.approx(centre)
    assert 0 <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= 1
    assert found.std_error == pytest.approx(error if found.method == "clustered_t" else 0, abs=1e-7)
    assert (found.method == "wilson") == (square < 1e-9)


def test_repeating_every_rollout_adds_no_certainty():
    once = [[1.0], [0.0], [1.0], [1.0], [0.0]]
    often = [rewards * 50 for rewards in once]
    assert interval(often).std_error == pytest.approx(interval(once).std_error)
    assert interval(often).low == pytest.approx(interval(once).low)


@pytest.mark.parametrize(
    ("tasks", "clusters"), [([[1.0, 1.0]] * 20, 20), ([[0.0]] * 20, 20), ([[1.0, 0.0]], 1)]
)
def test_where_nothing_varies_between_tasks_the_interval_is_wilsons(tasks, clusters):
    found = interval(tasks)
    assert found.method == "wilson"
    assert (found.low, found.high) == wilson(found.mean, clusters)
    assert found.high > found.low


def test_nothing_measured_has_no_interval():
    assert clustered_interval(ClusterSums()) is None


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Tasks differ in difficulty, 4 repeats each: 95 % clustered, far less with rollouts as the sample."""
    rnd = random.Random(20240229)
    runs, tasks, repeats = 2_000, 50, 4
    covered = naive = 0
    for _ in range(runs):
        sums = ClusterSums()
        for _ in range(tasks):
            difficulty = rnd.random()
            sums.add(sum(rnd.random() < difficulty for _ in range(repeats)), repeats)
        found = clustered_interval(sums)
        covered += found.low <= 0.5 <= found.high
        reach = 1.96 * math.sqrt(found.mean * (1 - found.mean) / (tasks * repeats))
        naive += abs(found.mean - 0.5) <= reach
    assert 0.935 <= covered / runs <= 0.965
    assert naive / runs < 0.87


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_interpolate_between_ranks(values, share):
    ordered = sorted(values)
    position = share * (len(values) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    expected = below + (position - math.floor(position)) * (above - below)
    assert Ordered(values).quantile(share) == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.sampled_from([0.0, 1.0, 1.5]) | st.floats(-5, 5), min_size=1, max_size=40))
def test_quantiles_over_several_runs_are_those_of_the_whole(values):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nemo_gym.rollouts.scores.quantiles._CHUNK", 4)
        ordered = Ordered(values)
    assert [ordered.rank(number) for number in range(len(values))] == sorted(values)


def test_quantiles_of_nothing_are_nan():
    assert math.isnan(Ordered([]).quantile(0.5))
    assert math.isnan(mean([]))
    assert sample_std([3.0]) == 0.0
