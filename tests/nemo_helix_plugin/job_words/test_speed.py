"""How fast a training is, in words."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_helix_plugin.job_words import job_state

WHOLE: dict[str, Any] = {
    "step_seconds": 0.51234,
    "tokens_per_second": 1234.5,
    "train_lr": 1e-4,
    "memory_bytes": 2_100_000_000,
    "seconds_left": 300,
}


@pytest.mark.parametrize(
    ("found", "going_on", "said"),
    [
        (WHOLE, True, "0.512 s a step, 1,234 tokens/s, lr 0.0001, 2.1 GB of memory, 5 min left"),
        (WHOLE, False, "0.512 s a step, 1,234 tokens/s, lr 0.0001, 2.1 GB of memory"),
        (
            {"step_seconds": 90, "memory_bytes": 40e9, "memory_limit_bytes": 80e9, "seconds_left": 0},
            True,
            "1 min 30 s a step, 40 GB of 80 GB",
        ),
        ({"train_lr": 3e-5}, True, "lr 3e-05"),
        ({"step_seconds": "fast", "tokens_per_second": True}, True, ""),
        ({}, True, ""),
    ],
)
def test_what_is_known_of_the_speed_is_said(found: dict[str, Any], going_on: bool, said: str) -> None:
    assert job_state.speed(found, going_on=going_on) == said
