"""Groups of tasks get the score and interval that a run of those tasks alone would have."""

from __future__ import annotations

import io
import json
import math
from array import array
from pathlib import Path

import pytest
from tests.nemo_gym.rollouts.scores.test_compare import A, B, make

from nemo_gym.rollouts.scores.aggregate import aggregate
from nemo_gym.rollouts.scores.columns import MEASURED, Columns
from nemo_gym.rollouts.scores.compare import compare
from nemo_gym.rollouts.scores.group_scores import MOST_GROUPS, members, score_groups
from nemo_gym.rollouts.scores.statistics import ClusterSums, clustered_interval
from nemo_gym.rollouts.scores.summary import load_summary

ROWS = [
    {"subject": "algebra", "level": 2, "tags": ["a", "b"]},
    {"subject": "algebra", "level": 10, "tags": ["b"]},
    {"subject": "geometry", "level": 2, "tags": []},
    {"subject": None, "level": 2},
]
REWARDS = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, math.nan]
"""Two repeats of each; one is missing."""


def columns(rewards: list[float] = REWARDS, repeats: int = 2) -> Columns:
    state = bytearray(0 if math.isnan(reward) else MEASURED for reward in rewards)
    tasks = len(rewards) // repeats
    return Columns(tasks, repeats, state, array("d", rewards), array("q", [0] * len(rewards)), {}, {})


def test_values_are_in_order_lists_count_for_each_and_missing_ones_are_last() -> None:
    assert members(ROWS, "level") == {"2": [0, 2, 3], "10": [1]}
    assert members(ROWS, "subject") == {"algebra": [0, 1], "geometry": [2], "(none)": [3]}
    assert members(ROWS, "tags") == {"a": [0], "b": [0, 1], "(none)": [2, 3]}


def test_a_group_has_the_score_and_interval_of_its_tasks_alone() -> None:
    scores, notes = score_groups(columns(), ROWS, ["subject", "level"])
    assert notes == []
    sums = ClusterSums()
    sums.add(1.0, 2)
    sums.add(2.0, 2)
    wanted = clustered_interval(sums)
    assert wanted is not None
    algebra = scores[0]
    assert (algebra.by, algebra.group, algebra.tasks, algebra.measured) == ("subject", "algebra", 2, 4)
    assert (algebra.mean, algebra.low, algebra.high) == (wanted.mean, wanted.low, wanted.high)
    assert [(score.by, score.group, score.mean) for score in scores[1:]] == [
        ("subject", "geometry", 0.0),
        ("subject", "(none)", 1.0),
        ("level", "2", pytest.approx(2 / 5)),
        ("level", "10", 1.0),
    ]


def test_a_group_without_a_measured_rollout_says_so() -> None:
    (score,), _ = score_groups(columns([math.nan, math.nan]), [{"level": 1}], ["level"])
    assert (score.mean, score.tasks, score.measured) == (None, 1, 0)
    assert "nothing measured" in score.sentence


def test_a_field_with_a_value_for_every_row_makes_no_groups() -> None:
    count = MOST_GROUPS + 1
    rows = [{"id": number} for number in range(count)]
    scores, notes = score_groups(columns([1.0] * count, 1), rows, ["id"])
    assert scores == []
    assert notes == [f"the field id has {count} values, more than the {MOST_GROUPS} groups that are scored"]


def test_summary_files_and_comparison_have_the_groups(tmp_path: Path) -> None:
    a, b = make(tmp_path / "a", A), make(tmp_path / "b", B, model="n")
    summary = aggregate(a, num_tasks=4, num_repeats=2, group_by=["level", "expected_answer"])
    loaded = load_summary(a)
    assert loaded is not None
    assert loaded.groups == summary.groups
    assert [(group.by, group.group, group.mean) for group in loaded.groups] == [
        ("level", "3", 0.5),
        ("expected_answer", "0", 0.5),
        ("expected_answer", "1", 0.0),
        ("expected_answer", "2", 1.0),
        ("expected_answer", "3", 0.5),
    ]
    (entry,) = json.loads(a.aggregate_metrics.read_bytes())
    assert [group["group"] for group in entry["group_scores"]] == ["3", "0", "1", "2", "3"]
    said = io.StringIO()
    loaded.print(said)
    assert "group     level=3  50.0%  (95% interval" in said.getvalue()
    (found,) = compare(a.output, b.output).shared
    assert found.groups["level"]["3"] == found.paired
    assert found.groups["expected_answer"]["0"].difference == 0.5
    assert found.to_json()["groups"]["expected_answer"]["2"]["difference"] == -0.5


def test_runs_without_groups_are_as_before(tmp_path: Path) -> None:
    paths = make(tmp_path / "a", A)
    summary = aggregate(paths, num_tasks=4, num_repeats=2)
    assert summary.to_json()["groups"] == []
    assert "group_scores" not in json.loads(paths.aggregate_metrics.read_bytes())[0]
    stored = json.loads(paths.coverage.read_bytes())
    del stored["groups"]  # as an earlier version wrote it
    paths.coverage.write_text(json.dumps(stored))
    assert load_summary(paths) == summary
