"""When a decision falls, and what it depends on."""

import pytest

from nemo_gym.rollouts.sequential.decision import Decider, StoppingState, task_order


def test_the_order_is_drawn_by_the_seed_and_more_tasks_keep_it():
    assert task_order(8, 0) == [7, 4, 3, 2, 6, 0, 5, 1]
    assert task_order(40, 0) != task_order(40, 1)
    assert [task for task in task_order(40, 5) if task < 10] == task_order(10, 5)


def test_a_score_is_known_well_enough_before_all_tasks_are_used():
    decider = Decider(1000, half_width=0.05)
    used = 0
    while decider.take([1.0]) is None:
        used += 1
    found = decider.finding
    assert found.outcome == "precise"
    assert found.tasks_used == used + 1 < 200
    assert found.score.half_width <= 0.05
    assert (found.score.mean, found.difference) == (1.0, None)


def test_nothing_moves_a_decision():
    decider = Decider(1000, half_width=0.2)
    while decider.take([1.0]) is None:
        pass
    found = decider.finding
    decider.take([0.0])
    assert decider.finding == found


@pytest.mark.parametrize(
    ("own", "other", "outcome"), [(1.0, 0.0, "better"), (0.0, 1.0, "worse"), (0.5, 0.5, "equal")]
)
def test_a_run_is_better_worse_or_after_all_tasks_equal(own, other, outcome):
    decider = Decider(50, reference=[other] * 50)
    for _ in range(50):
        if decider.take([own]):
            break
    found = decider.finding
    assert found.outcome == outcome
    assert found.difference.mean == pytest.approx(own - other)
    assert (found.tasks_used == 50) == (outcome == "equal")
    assert found.difference.low <= own - other <= found.difference.high


def test_repeats_of_a_task_are_one_score():
    one, many = Decider(10, half_width=0.3), Decider(10, half_width=0.3)
    for rewards in ([1.0, 0.0], [1.0, 1.0], [0.0, 0.0]):
        one.take([sum(rewards) / 2])
        many.take(rewards)
    assert one.finding == many.finding


def test_what_failed_for_good_may_have_been_anything_and_decides_nothing():
    decider = Decider(2, reference=[0.5, 0.5])
    decider.take([1.0, 0.0])
    assert decider.take([1.0], given_up=[3]) is None  # from 0.5 to 1
    found = decider.finding
    assert found.given_up == (3,)
    assert (found.difference.low, found.difference.high) == (pytest.approx(0), pytest.approx(0.25))
    assert StoppingState.of_json(found.to_json()) == found
    masked = Decider(1, half_width=0.1)
    assert masked.take([]) is None
    assert (masked.finding.score.mean, masked.finding.score.low, masked.finding.score.high) == (None, 0, 1)


def test_runs_that_are_equal_are_so_however_their_scores_round():
    own, other = (0.0, 1 / 3, 1 / 3, 2 / 3, 1.0), (1.0, 2 / 3, 1 / 3, 1 / 3, 0.0)
    for first, second in ((own, other), (other, own)):
        decider = Decider(5, reference=second)
        for score in first:
            decider.take([score])
        found = decider.finding
        assert found.outcome == "equal"
        assert found.score.low <= found.score.high
        assert found.difference.low <= found.difference.high == pytest.approx(0)
