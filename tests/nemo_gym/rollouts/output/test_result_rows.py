"""Task, answer and grade side by side in one row: nobody's field is taken for somebody else's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemo_gym.rollouts.output.result_rows import Answer
from nemo_gym.types import Episode, RolloutFailedError, Row, Task, Verdict

RESPONSE = {"output": [], "usage": {"input_tokens": 3, "output_tokens": 2}}
TASK = {"question": "7 + 5?", "expected_answer": "12"}
AWKWARD = {
    **TASK,
    "response": "the data's own",
    "reward": 0.93,
    "extracted_answer": "x",
    "ng_perf": [1],
    "mask_sample": True,
    "score": 7,
}


def answer(task: Row, **agent: Any) -> Answer:
    row = {"_ng_task_index": 4, "_ng_rollout_index": 1, **task}
    return Answer.of(Task(4, 1, row), Episode(RESPONSE, fields=agent), latency_ms=12.3456, ended_at=1.5)


def stored(row: Row) -> Row:
    """The row as it comes back from a file."""
    return json.loads(json.dumps(row))


@pytest.mark.parametrize("task", [TASK, AWKWARD])
@pytest.mark.parametrize("agent", [{}, {"trace": [1], "score": 2, "_ng_own": 3, "reward": 4}])
@pytest.mark.parametrize("fields", [{}, {"score": 0.5, "trace": "t", "note": "n", "response": "mine"}])
def test_what_was_graded_can_be_graded_again_with_the_same_task_and_episode(
    task: Row, agent: Row, fields: Row
) -> None:
    first = answer(task, **agent)
    for row in (first.ungraded(), first.graded(Verdict(0.5, "12", fields), 0.5)):
        again = Answer.of_row(stored(row))
        assert again.to_task(4, 1) == Task(4, 1, {"_ng_task_index": 4, "_ng_rollout_index": 1, **task})
        assert again.to_episode() == Episode(RESPONSE, fields=agent)
        assert again.graded(Verdict(1.0), 1.0) == first.graded(Verdict(1.0), 1.0)


def test_the_collectors_own_names_always_mean_what_the_reference_says() -> None:
    row = answer(AWKWARD, reward=9, response=1).graded(Verdict(0.25, "a", {"reward": 8, "ng_perf": 0}), 0.25)
    assert (row["response"], row["reward"], row["extracted_answer"]) == (RESPONSE, 0.25, "a")
    assert row["ng_perf"]["total_latency_ms"] == 12.346
    assert "mask_sample" not in row  # a task cannot leave itself out of the score
    assert row["_ng_covered"]["verdict"] == {"reward": 8, "ng_perf": 0}
    assert row["_ng_covered"]["task"]["reward"] == 0.93


def test_a_row_without_shared_names_has_nothing_covered() -> None:
    row = answer(TASK).graded(Verdict(1.0, "12"), 1.0)
    assert row == {
        **TASK,
        "_ng_agent_fields": [],
        "response": RESPONSE,
        "reward": 1.0,
        "extracted_answer": "12",
        "ng_perf": row["ng_perf"],
    }


def test_fields_that_only_an_earlier_verdict_had_are_gone_after_grading_again() -> None:
    old = answer(TASK).graded(Verdict(0.0, None, {"mask_sample": True, "failure_kind": "judge_failed"}), 0.0)
    assert old["mask_sample"] is True
    new = Answer.of_row(stored(old)).graded(Verdict(1.0, "12", {"near_miss": False}), 1.0)
    assert new == answer(TASK).graded(Verdict(1.0, "12", {"near_miss": False}), 1.0)
    assert not new.keys() & {"mask_sample", "failure_kind"}


def test_rows_of_an_earlier_version_are_read() -> None:
    old = {
        **TASK,
        "trace": 1,
        "grade": "good",
        "_ng_verdict_fields": ["grade"],
        "_ng_attempt_index": 2,
        "reward": 1.0,
        "extracted_answer": "12",
        "response": RESPONSE,
        "ng_perf": {"num_turns": 2},
    }
    found = Answer.of_row(old, source=frozenset(TASK))
    assert (found.task, found.agent, found.notes) == (TASK, {"trace": 1}, {"_ng_attempt_index": 2})
    assert found.to_episode().turns == 2
    known = Answer.of_row({**old, "response": RESPONSE}, {"_ng_task_index": 0, **AWKWARD}, frozenset(AWKWARD))
    assert known.task == AWKWARD


def test_fields_of_a_verifier_that_are_no_mapping_are_its_failure() -> None:
    with pytest.raises(RolloutFailedError, match="the verifier's fields are a list, not a mapping"):
        answer(TASK).graded(Verdict(1.0, fields=[1]), 1.0)  # type: ignore[arg-type]
