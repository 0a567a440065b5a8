"""Evaluations while a training runs: never twice for a step, never the end of a training, and decided by."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nemo_engines.evaluation_training import (
    answered,
    assert_ended_alike,
    early,
    evaluated_spec,
    results,
    scores,
    started,
)
from tests.nemo_engines.forge import Forge, Training

pytestmark = pytest.mark.slow


def test_no_row_is_asked_twice_however_often_an_evaluation_or_its_training_is_broken_off(
    forge: Forge, tmp_path: Path
) -> None:
    alone = started(forge, tmp_path / "alone", early(tmp_path))
    assert list(scores(alone)) == [2, 4, 6]
    broken = Training(forge, tmp_path / "broken", early(tmp_path))
    assert broken.start(pause_after_batches=2) == 75, broken.log
    assert broken.progress["phase"] == "paused"
    assert answered(broken) == {2: [0, 1]}
    assert not results(broken)
    assert broken.start(pause_after=2) == 75, broken.log
    assert broken.progress["final_step"] == 4
    # the training dies in the evaluation that the last start left open
    assert broken.start(training_dies_after_batches=1) == -9
    assert broken.start() == 0, broken.log
    assert_ended_alike(broken, alone, 6)
    before = {path: path.stat().st_mtime_ns for path in broken.trainer_path.glob("evaluations/*/result.json")}
    assert broken.start() == 0, broken.log
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert broken.history == alone.history


def test_on_another_device_the_training_goes_on_and_ends_at_the_same_step_through_pauses(
    forge: Forge, tmp_path: Path
) -> None:
    spec = early(tmp_path, evaluation={"device": "cpu"})
    alone = started(forge, tmp_path / "alone", spec)
    # the score of step 6 is taken at step 8, where the next one would begin
    assert list(scores(alone)) == [2, 4, 6, 8]
    broken = Training(forge, tmp_path / "broken", spec)
    assert broken.start(pause_after=5) == 75, broken.log
    assert broken.start() == 0, broken.log
    assert_ended_alike(broken, alone, 8)


def test_whatever_becomes_of_an_evaluation_the_training_goes_on_and_says_why(
    forge: Forge, tmp_path: Path
) -> None:
    spec = evaluated_spec("dpo", "full", tmp_path, evaluation={"every": 6, "device": "cuda:7"})
    training = started(forge, tmp_path / "failed", spec)
    assert results(training)[6]["error"]
    assert training.progress["evaluation"]["failed"] == 1
    assert "the evaluation of step 6 failed: " in training.log
    assert scores(training) == {}
    killed = Training(
        forge, tmp_path / "killed", evaluated_spec("dpo", "full", tmp_path, evaluation={"every": 6})
    )
    assert killed.start(evaluation_dies_after_batches=2) == 0, killed.log
    assert results(killed)[6]["error"] == "its process was ended by SIGKILL"
    assert training.weights == killed.weights


def test_grpo_answers_fixed_prompts_between_two_generations_side_by_side(
    forge: Forge, tmp_path: Path
) -> None:
    spec = evaluated_spec(
        "grpo", "lora", tmp_path, evaluation={"every": 3, "name": None, "metric": None, "folder": None}
    )
    training = started(forge, tmp_path / "grpo", spec)
    assert scores(training) == {}
    [first, second] = training.progress["evaluation"]["prompts"]
    assert (first["prompt"], second["prompt"]) == ("What is 1 + 1?", "Say something.")
    assert [one["step"] for one in first["answers"]] == [4, 6]
