import pytest

from nemo_gym.rollouts.drain import StopReason
from nemo_gym.rollouts.ends import Counts, decide_end

DONE = Counts(expected=10, recorded=10, new=4, exhausted=0)
LEFT = Counts(expected=10, recorded=7, new=4, exhausted=1)
STUCK = Counts(expected=10, recorded=7, new=0, exhausted=1)
EXHAUSTED = Counts(expected=10, recorded=7, new=4, exhausted=3)
NOTHING = Counts(expected=10, recorded=0, new=0, exhausted=10)
ASKED = (StopReason.SIGNAL, StopReason.FILE, StopReason.BUDGET)


@pytest.mark.parametrize("stop", [None, *StopReason])
def test_complete_is_complete_however_it_stopped(stop):
    end = decide_end(DONE, stop)
    assert (end.status, end.state) == (0, "complete")


@pytest.mark.parametrize("stop", ASKED)
@pytest.mark.parametrize("counts", [LEFT, STUCK, EXHAUSTED])
def test_a_drain_that_was_asked_for_ends_75_and_names_who_asked(stop, counts):
    end = decide_end(counts, stop, asked_by="walltime")
    assert (end.status, end.state) == (75, "drained")
    assert "walltime" in end.sentence
    assert "7 of 10" in end.sentence


def test_an_interrupt_ends_130():
    assert decide_end(LEFT, StopReason.INTERRUPT).status == 130


@pytest.mark.parametrize("stop", [None, StopReason.ENDPOINT])
def test_with_progress_and_work_left_it_is_75_without_progress_1(stop):
    assert decide_end(LEFT, stop).status == 75
    end = decide_end(STUCK, stop)
    assert (end.status, end.state) == (1, "failed")
    assert "not one new result" in end.sentence


@pytest.mark.parametrize("counts", [EXHAUSTED, NOTHING, Counts(10, 7, 0, 3)])
def test_with_nothing_left_to_retry_it_is_76(counts):
    assert decide_end(counts, None).status == 76


@pytest.mark.parametrize("counts", [LEFT, STUCK, EXHAUSTED])
def test_an_incomplete_end_is_accepted_when_completeness_is_not_required(counts):
    end = decide_end(counts, None, require_complete=False)
    assert end.status == 0
    assert end.state != "complete"
    assert "7 of 10" in end.sentence


def test_no_result_at_all_is_never_accepted():
    assert decide_end(NOTHING, None, require_complete=False).status == 76


@pytest.mark.parametrize(("stop", "status"), [(StopReason.SIGNAL, 75), (StopReason.INTERRUPT, 130)])
def test_a_stop_is_told_even_when_completeness_is_not_required(stop, status):
    assert decide_end(LEFT, stop, require_complete=False).status == status
