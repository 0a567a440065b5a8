"""A verdict inside a result row."""

from nemo_gym.rollouts.verdicts import VERDICT_FIELDS, graded, ungraded
from nemo_gym.types import Verdict

ROW = {"question": "7 + 5?", "expected_answer": "12", "trajectory": [1]}


def test_fields_that_only_an_earlier_verdict_had_are_gone_after_grading_again():
    old = graded(ROW, Verdict(0.0, None, {"mask_sample": True, "failure_kind": "judge_failed"}), 0.0)
    assert old["mask_sample"] is True
    new = graded(old, Verdict(1.0, "12", {"near_miss": False}), 1.0)
    assert new == {
        **ROW,
        "near_miss": False,
        VERDICT_FIELDS: ["near_miss"],
        "reward": 1.0,
        "extracted_answer": "12",
    }


def test_a_field_of_the_task_that_a_verifier_writes_over_is_not_lost_with_the_verdict():
    row = graded(ROW, Verdict(1.0, "12", {"expected_answer": "twelve"}), 1.0)
    assert VERDICT_FIELDS not in row
    assert ungraded(row)["expected_answer"] == "twelve"


def test_a_verifier_that_adds_nothing_leaves_no_trace_of_fields():
    assert graded(ROW, Verdict(1.0), 1.0) == {**ROW, "reward": 1.0, "extracted_answer": None}
