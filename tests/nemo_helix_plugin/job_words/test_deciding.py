"""The best checkpoint and an early end, in words."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_helix_plugin.job_words import deciding

STOPPING: dict[str, Any] = {
    "metric": "val_loss",
    "direction": "lowest",
    "patience": 3,
    "min_change": 0.0,
    "waited": 1,
    "best": 1.25,
    "best_step": 200,
    "stopped_at": None,
}


def test_the_best_checkpoint_is_named_with_its_value() -> None:
    best = {"step": 300, "metric": "val_loss", "value": 1.23456, "published": True}
    assert deciding.best_checkpoint({"best_checkpoint": best}) == (
        "step 300, val_loss 1.235; it becomes the model"
    )
    assert deciding.best_checkpoint({"best_checkpoint": {**best, "published": False}}) == (
        "step 300, val_loss 1.235"
    )
    assert deciding.best_step({"best_checkpoint": best}) == 300


@pytest.mark.parametrize("best", [None, "3", {}, {"step": True, "value": 1}, {"step": 3, "value": None}])
def test_what_is_no_best_checkpoint_has_no_words(best: Any) -> None:
    assert deciding.best_checkpoint({"best_checkpoint": best}) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "when val_loss is not lower than 1.25 at step 200 in 3 evaluations; 1 of them so far"),
        (
            {"best": None, "best_step": None, "waited": 0, "patience": 1, "min_change": 0.01},
            "when val_loss is not lower by more than 0.01 in 1 evaluation; 0 of them so far",
        ),
        (
            {"stopped_at": 500, "waited": 3, "metric": "val_reward", "direction": "highest"},
            "ended at step 500: val_reward was not higher than 1.25 at step 200 in 3 evaluations",
        ),
    ],
)
def test_an_early_end_is_said_with_how_near_it_is(changes: dict[str, Any], said: str) -> None:
    assert deciding.early_stopping({"early_stopping": {**STOPPING, **changes}}) == said


def test_without_early_stopping_nothing_is_said() -> None:
    assert deciding.early_stopping({}) == ""
