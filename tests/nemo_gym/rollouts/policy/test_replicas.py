"""Which of several servers gets a request."""

import pytest

from nemo_gym.rollouts.policy.replicas import LONGEST_PAUSE, Replicas


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_least_busy_server_gets_the_next_request(clock):
    replicas = Replicas(3, monotonic=clock)
    assert [replicas.pick() for _ in range(4)] == [0, 1, 2, 0]
    replicas.release(1)
    replicas.release(1 - 1)
    assert [replicas.pick(), replicas.pick()] == [1, 0]


def test_a_server_is_kept_however_busy_it_is_as_long_as_it_is_well(clock):
    replicas = Replicas(2, monotonic=clock)
    assert [replicas.pick(1) for _ in range(3)] == [1, 1, 1]
    assert replicas.pick() == 0
    assert replicas.failed(1)
    assert replicas.pick(1) == 0


def test_a_sick_server_is_tried_again_by_one_request_after_a_pause_that_grows(clock):
    replicas = Replicas(2, monotonic=clock)
    pauses = []
    for _ in range(9):
        replicas.failed(0)
        start = clock.now
        while replicas.pick() != 0:  # the other one gets all of them meanwhile
            replicas.release(1)
            clock.now += 0.5
        pauses.append(clock.now - start)
        assert replicas.pick() == 1  # one that tries is enough
        replicas.release(1)
        replicas.release(0)
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


def test_requests_that_fail_together_are_one_failure(clock):
    replicas = Replicas(2, monotonic=clock)
    assert [replicas.failed(0) for _ in range(30)] == [True] + [False] * 29
    clock.now += 1.0
    assert replicas.pick() == 0


def test_an_answer_makes_a_server_well_again(clock):
    replicas = Replicas(2, monotonic=clock)
    assert not replicas.answered(0)
    replicas.failed(0)
    assert replicas.well == 1
    assert replicas.answered(0)
    assert replicas.well == 2
    assert replicas.failed(0)  # its next failure is a first one: its pause is short again
    clock.now += 1.0
    assert replicas.pick() == 0


def test_where_none_is_well_the_one_whose_pause_ends_first_is_asked(clock):
    replicas = Replicas(2, monotonic=clock)
    replicas.failed(1)
    clock.now += 0.4
    replicas.failed(0)
    assert replicas.well == 0
    assert replicas.pick() == 1


def test_one_server_is_asked_whatever_became_of_it(clock):
    replicas = Replicas(1, monotonic=clock)
    assert replicas.pick() == 0
    replicas.failed(0)
    assert replicas.pick() == 0
    with pytest.raises(ValueError, match="at least one"):
        Replicas(0, monotonic=clock)
