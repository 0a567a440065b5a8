"""Answers that take long, kept until the files that they were made of change."""

import threading

import pytest

from nemo_gym.errors import DataError
from nemo_gym.pages.index.background_answers import BackgroundAnswers
from nemo_runs.clock import MovableClock


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def answers(clock: MovableClock) -> BackgroundAnswers:
    return BackgroundAnswers(clock)


def work_off(answers: BackgroundAnswers) -> None:
    while answers._one():
        pass


def test_an_answer_is_pending_first_and_then_has_its_time(
    answers: BackgroundAnswers, clock: MovableClock
) -> None:
    first = answers.ask("bill", 1, lambda: "12 h")
    assert (first.value, first.pending, first.at) == (None, True, 0.0)
    work_off(answers)
    second = answers.ask("bill", 1, lambda: pytest.fail("asked again"))
    assert (second.value, second.pending, second.at) == ("12 h", False, clock.seconds())


def test_an_old_answer_is_shown_while_a_new_one_is_worked_out(answers: BackgroundAnswers) -> None:
    answers.ask("bill", 1, lambda: "old")
    work_off(answers)
    again = answers.ask("bill", 2, lambda: "new")
    assert (again.value, again.pending) == ("old", True)
    work_off(answers)
    assert answers.ask("bill", 2, lambda: "other").value == "new"


@pytest.mark.parametrize("error", [DataError("a row is torn"), OSError(5, "gone"), ValueError("no number")])
def test_why_there_is_no_answer_is_said_once_and_the_next_one_is_worked_out(
    answers: BackgroundAnswers, error: Exception
) -> None:
    def fail() -> str:
        raise error

    answers.ask("bill", 1, fail)
    answers.ask("certificate", 1, lambda: "whole")
    work_off(answers)
    found = answers.ask("bill", 1, fail)
    assert (found.value, found.pending, found.error) == (None, False, str(error))
    assert answers.ask("certificate", 1, lambda: "").value == "whole"


def test_the_same_question_waits_once(answers: BackgroundAnswers) -> None:
    done: list[int] = []
    for _ in range(3):
        answers.ask("bill", 1, lambda: done.append(1))
    work_off(answers)
    assert done == [1]


def test_a_thread_works_until_it_is_closed(answers: BackgroundAnswers) -> None:
    worked = threading.Event()
    answers.start()
    answers.ask("bill", 1, worked.set)
    assert worked.wait(60)
    answers.close()
