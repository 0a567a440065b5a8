"""What follows a step, how log entries are reported, and how several processes end as one."""

from __future__ import annotations

import itertools
import math

import pytest

from nemo_engines import launching
from nemo_engines.hf import reporting
from nemo_engines.steering import LoopDecision, decide, decode, encode
from nemo_trainer.contract import WANTS


@pytest.mark.parametrize(
    ("step", "want", "due", "expected"),
    [
        (4, "run", False, LoopDecision()),
        (4, "run", True, LoopDecision("periodic")),
        (5, "run", True, LoopDecision()),
        (4, "pause", True, LoopDecision("pause", stop=True, stops_at=4)),
        (5, "pause", False, LoopDecision(stops_at=6)),
        (13, "pause", False, LoopDecision("final", stop=True)),
        (4, "checkpoint", False, LoopDecision("asked")),
        (5, "checkpoint", False, LoopDecision()),
        (5, "stop", True, LoopDecision(stop=True)),
    ],
)
def test_what_follows_a_step(step: int, want: str, due: bool, expected: LoopDecision) -> None:
    assert decide(step=step, last=13, boundary=2, want=want, due=due) == expected  # type: ignore[arg-type]


def test_a_pause_after_the_last_boundary_takes_effect_at_the_end() -> None:
    assert decide(step=5, last=6, boundary=4, want="pause", due=False) == LoopDecision(stops_at=6)


def test_a_pause_never_leaves_without_its_checkpoint_and_the_end_is_always_saved() -> None:
    for step, boundary, want, due in itertools.product(range(1, 13), range(1, 5), WANTS, (True, False)):
        made = decide(step=step, last=12, boundary=boundary, want=want, due=due)
        assert not made.stop or made.save in {"pause", "final"} or want == "stop"
        assert made.save in {None, "final"} or step % boundary == 0
        assert (step == 12) == (made.save == "final")
        assert decode(*encode(made)) == made._replace(stops_at=None)


def test_log_entries_get_the_names_of_charts() -> None:
    logs = {
        "loss": 1.0,
        "learning_rate": 2,
        "rewards/margins": 0.5,
        "epoch": 3.0,
        "step_time": 9.0,
        "tools": True,
    }
    assert reporting.reported(logs) == {"train_loss": 1.0, "train_lr": 2.0, "train_reward_margin": 0.5}
    assert reporting.reported({"eval_loss": 1.5, "eval_runtime": 3.0}) == {"val_loss": 1.5}
    assert reporting.reported({"train_runtime": 3.0, "train_loss": 1.0}) == {}


def test_what_is_no_number_is_a_divergence() -> None:
    assert reporting.divergence({"loss": 1.0, "grad_norm": 2.0}, fp16=False) is None
    assert reporting.divergence({"loss": math.nan}, fp16=False) == "the loss is nan"
    assert reporting.divergence({"loss": 1.0, "grad_norm": math.inf}, fp16=True) is None
    assert (
        reporting.divergence({"loss": 1.0, "grad_norm": math.inf}, fp16=False) == "the gradient's norm is inf"
    )


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([75, 75], 75), ([75, -15], 75), ([75, 5], 5), ([-9, -15], 137), ([2, 2], 2), ([-15], 1), ([], 1)],
)
def test_several_processes_end_as_one(codes: list[int], expected: int) -> None:
    assert launching.exit_code(codes) == expected
