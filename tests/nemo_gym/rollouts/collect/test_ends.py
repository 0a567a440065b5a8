import pytest

from nemo_gym.rollouts.collect import exit_report
from nemo_gym.rollouts.collect.drain import StopReason
from nemo_gym.rollouts.collect.ends import Counts, decide_end

DONE = Counts(expected=10, recorded=10, new=4, exhausted=0)
LEFT = Counts(expected=10, recorded=7, new=4, exhausted=1)
STUCK = Counts(expected=10, recorded=7, new=0, exhausted=1)
EXHAUSTED = Counts(expected=10, recorded=7, new=4, exhausted=3)
NOTHING = Counts(expected=10, recorded=0, new=0, exhausted=10)
SPENT = Counts(expected=10, recorded=7, new=0, exhausted=3, final=1)
KEPT = Counts(expected=10, recorded=7, new=0, exhausted=0, ungraded=3)
ASKED = (StopReason.SIGNAL, StopReason.FILE, StopReason.BUDGET)


def end_of(counts, stop, **more):
    return decide_end(counts, stop, max_attempts=3, **more)


@pytest.mark.parametrize("stop", [None, *StopReason])
def test_complete_is_complete_however_it_stopped(stop):
    end = end_of(DONE, stop)
    assert (end.status, end.state) == (0, "complete")


@pytest.mark.parametrize("stop", ASKED)
@pytest.mark.parametrize("counts", [LEFT, STUCK, EXHAUSTED])
def test_a_drain_that_was_asked_for_ends_75_and_names_who_asked(stop, counts):
    end = end_of(counts, stop, asked_by="walltime")
    assert (end.status, end.state) == (75, "drained")
    assert "walltime" in end.sentence
    assert "7 of 10" in end.sentence


def test_an_interrupt_ends_130():
    assert end_of(LEFT, StopReason.INTERRUPT).status == 130


@pytest.mark.parametrize("stop", [None, StopReason.ENDPOINT])
def test_with_progress_and_work_left_it_is_75_without_progress_1(stop):
    assert end_of(LEFT, stop).status == 75
    end = end_of(STUCK, stop)
    assert (end.status, end.state) == (1, "failed")
    assert "not one new result" in end.sentence


@pytest.mark.parametrize("counts", [EXHAUSTED, NOTHING, Counts(10, 7, 0, 3)])
def test_with_nothing_left_to_retry_it_is_76(counts):
    assert end_of(counts, None).status == 76


@pytest.mark.parametrize("counts", [LEFT, STUCK, EXHAUSTED])
def test_an_incomplete_end_is_accepted_when_completeness_is_not_required(counts):
    end = end_of(counts, None, require_complete=False)
    assert end.status == 0
    assert end.state != "complete"
    assert "7 of 10" in end.sentence


def test_no_result_at_all_is_never_accepted():
    assert end_of(NOTHING, None, require_complete=False).status == 76


@pytest.mark.parametrize(("stop", "status"), [(StopReason.SIGNAL, 75), (StopReason.INTERRUPT, 130)])
def test_a_stop_is_told_even_when_completeness_is_not_required(stop, status):
    assert end_of(LEFT, stop, require_complete=False).status == status


def test_what_is_exhausted_is_told_with_the_setting_that_limits_it():
    end = end_of(SPENT, None)
    assert (end.status, end.state) == (76, "exhausted")
    assert end.sentence == (
        "exhausted: 7 of 10 rollouts have a result, 2 failed as often as max_rollout_attempts (3) allows, "
        "1 failed for good; the failures file says why; --resume with a higher max_rollout_attempts tries "
        "these again."
    )
    assert "max_rollout_attempts" not in end_of(Counts(10, 7, 0, 3, final=3), None).sentence


def test_answers_that_could_not_be_graded_are_told_to_be_kept():
    end = end_of(KEPT, None)
    assert (end.status, end.state) == (76, "exhausted")
    assert "3 have an answer, but grading it failed" in end.sentence
    assert "--resume or `gym eval reverify` grades the kept answers without a request" in end.sentence


@pytest.mark.parametrize("stop", [None, StopReason.SIGNAL, StopReason.INTERRUPT, StopReason.ENDPOINT])
def test_a_question_that_is_answered_ends_a_run_as_if_all_were_asked(stop):
    counts = Counts(1000, 312, 12, 0, decided="decided after 300 of 1,000 tasks")
    end = decide_end(counts, stop, max_attempts=3)
    assert (end.status, end.state) == (0, "complete")
    assert end.sentence == ("decided after 300 of 1,000 tasks; 312 of 1,000 rollouts have a result.")
    assert exit_report.of_end(end, counts).line().startswith('{"state":"complete","status":0,')
