"""Evaluations of a training in words, and the answers to fixed prompts."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_helix_plugin.job_words import evaluating, job_state

SHOWN: list[dict[str, Any]] = [
    {"step": 100, "score": 0.31, "low": 0.2, "high": 0.42, "rows": 100, "seconds": 60.0},
    {"step": 200, "error": "its process was ended by SIGKILL", "seconds": 4.0},
    {"step": 300, "score": 0.42, "low": 0.33, "high": 0.51, "rows": 100, "seconds": 66.0},
]
SAID: dict[str, Any] = {
    "benchmark": "arithmetic",
    "device": "same",
    "count": 3,
    "failed": 1,
    "seconds": 130.0,
    "running": None,
    "shown": SHOWN,
    "prompts": [{"prompt": "2 + 3?", "answers": [{"step": 100, "text": "6"}, {"step": 300, "text": "5"}]}],
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "arithmetic 0.42 [0.33, 0.51] at step 300; 3 evaluations, 2 min 10 s in all, for which it waited",
        ),
        (
            {"device": "cuda:1", "running": 400, "shown": SHOWN[1:2], "count": 1, "seconds": 4},
            "1 evaluation, 4 s in all on cuda:1; step 400 is being evaluated",
        ),
        ({"count": 0, "shown": []}, ""),
    ],
)
def test_the_newest_score_is_said_with_its_interval_and_what_all_of_them_took(
    changes: dict[str, Any], said: str
) -> None:
    assert evaluating.evaluation({"evaluation": {**SAID, **changes}}) == said


def test_a_failed_evaluation_is_a_warning_with_its_cause_until_one_succeeds() -> None:
    failed = {"evaluation": {**SAID, "shown": SHOWN[:2]}}
    sentence = "the evaluation of step 200 failed, and training went on: its process was ended by SIGKILL"
    assert list(job_state.warnings({"status_details": failed})) == [sentence]
    assert evaluating.failure({"evaluation": SAID}) == ""


def test_rows_and_answers_are_given_for_tables() -> None:
    rows = evaluating.rows({"evaluation": SAID})
    assert [(row["step"], row["score"], row["error"]) for row in rows] == [
        (100, 0.31, None),
        (200, None, "its process was ended by SIGKILL"),
        (300, 0.42, None),
    ]
    assert [evaluating.score(row) for row in rows] == ["0.31 [0.2, 0.42]", "failed", "0.42 [0.33, 0.51]"]
    [asked] = evaluating.side_by_side({"evaluation": SAID})
    assert (asked["prompt"], [one["text"] for one in asked["answers"]]) == ("2 + 3?", ["6", "5"])


@pytest.mark.parametrize("said", [None, [], "x", {"shown": 3, "prompts": [4], "count": None}])
def test_what_is_no_evaluation_has_no_words(said: Any) -> None:
    found = {"evaluation": said}
    assert evaluating.evaluation(found) == evaluating.failure(found) == ""
    assert evaluating.rows(found) == evaluating.side_by_side(found) == []
