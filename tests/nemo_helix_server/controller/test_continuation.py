"""What is spent on going on after lost places, and what is kept of the allocations."""

import json

import pytest

from nemo_helix_server.controller import continuation
from nemo_helix_server.controller.continuation import AllocationEnd, AllocationHistory, ContinuationBudget
from nemo_helix_server.jobs.states import StatusReason

BUDGET = ContinuationBudget(continuations=5, seconds=10_000.0, first_wait=10.0, longest_wait=60.0)
LONG = AllocationEnd(seconds=7200, trained=7000, interval=900)


def history_of(*ends):
    history = AllocationHistory()
    for end in ends:
        history = history.after(end)
    return history


@pytest.mark.parametrize(
    ("end", "outlived"),
    [
        (AllocationEnd(), False),
        (AllocationEnd(seconds=5000, trained=899, interval=900), False),
        (AllocationEnd(seconds=5000, trained=901, interval=900), True),
        (AllocationEnd(seconds=1799), False),
        (AllocationEnd(seconds=1801), True),
        (AllocationEnd(seconds=1801, interval=900), False),
        (AllocationEnd(seconds=2701, interval=900), True),
        (AllocationEnd(seconds=50_000, trained=None, interval=900), True),
    ],
)
def test_an_allocation_was_long_enough_after_its_start_up_and_one_interval(end, outlived):
    assert end.outlived is outlived


def test_a_checkpoint_begins_every_count_in_a_row_again_and_none_of_the_sums():
    history = history_of(LONG, AllocationEnd(seconds=10, saved=True))
    assert (history.without_checkpoint, history.idle) == (0, 0)
    assert (history.ended, history.interrupted, history.seconds) == (2, 2, 7210.0)
    assert history.next == "3rd allocation"


def test_a_short_one_in_between_keeps_the_count_in_a_row():
    assert history_of(LONG, AllocationEnd(seconds=10), LONG).without_checkpoint == 2


def test_a_pause_is_an_allocation_and_no_lost_place():
    history = history_of(LONG).after_pause(LONG)
    assert (history.ended, history.interrupted) == (2, 1)
    assert (history.without_checkpoint, history.idle) == (0, 0)
    assert history.seconds == 14_400


def test_what_is_kept_is_read_again():
    history = history_of(LONG, AllocationEnd(failed_nodes=("n3", "n4")))
    assert AllocationHistory.read(json.loads(json.dumps(history.to_json()))) == history


@pytest.mark.parametrize(
    "value", [None, 3, "x", [], {}, {"ended": -1, "seconds": "x", "node_failures": [1], "idle": True}]
)
def test_of_anything_else_the_history_is_empty(value):
    assert AllocationHistory.read(value) == AllocationHistory()


def test_nodes_that_failed_it_twice_are_excluded():
    history = history_of(
        AllocationEnd(failed_nodes=("n3",)), AllocationEnd(failed_nodes=("n4",)), AllocationEnd()
    )
    assert history.excluded == ()
    history = history.after(AllocationEnd(failed_nodes=("n3",), saved=True))
    assert history.excluded == ("n3",)
    said = continuation.waits_for_a_node(history, "the node n3 failed", 4200)
    assert said == "waits for a node after the node n3 failed, 5th allocation, from step 4,200; without n3"


def test_it_goes_on_so_often_and_no_more():
    short = AllocationEnd(seconds=1.0)
    assert continuation.spent(history_of(*[short] * 5), BUDGET) is None
    reason, said = continuation.spent(history_of(*[short] * 6), BUDGET)
    assert reason is StatusReason.CONTINUATION_BUDGET_SPENT
    assert "6th time" in said
    assert "at most 5 times (max_continuations)" in said


def test_it_takes_so_long_and_no_longer():
    ends = [AllocationEnd(seconds=5000, saved=True)]
    assert continuation.spent(history_of(*ends), BUDGET) is None
    reason, said = continuation.spent(history_of(*ends * 2), BUDGET)
    assert reason is StatusReason.CONTINUATION_BUDGET_SPENT
    assert "max_walltime_seconds" in said


def test_the_wait_grows_while_nothing_is_saved_and_has_a_limit():
    short, waits, history = AllocationEnd(seconds=1.0), [], AllocationHistory()
    for _ in range(6):
        history = history.after(short)
        waits.append(continuation.wait_before_next(history, BUDGET))
    assert waits == [0, 10, 20, 40, 60, 60]
    history = history.after(AllocationEnd(saved=True))
    assert continuation.wait_before_next(history, BUDGET) == 0
    assert continuation.wait_before_next(AllocationHistory(idle=10**9), BUDGET) == 60


@pytest.mark.parametrize("value", [None, {}, {"wait_seconds": None}, {"wait_seconds": 5, "since": 7}])
def test_the_rest_of_a_wait_is_never_negative(value):
    assert continuation.wait_left(value, lambda _since, _mark: 9.0) == 0.0


def test_the_rest_of_a_wait():
    value = {"wait_seconds": 20, "since": 7, "mark": "boot 1"}
    ages = {(7, "boot 1"): 6.0}
    assert continuation.wait_left(value, lambda since, mark: ages[since, mark]) == 14
