"""The library's log entries under the names that progress and charts use."""

from __future__ import annotations

import math
from collections.abc import Mapping

from nemo_engines.spec import EngineSpec

_NAMES = {
    "learning_rate": "lr",
    "rewards/accuracies": "accuracy",
    "rewards/margins": "reward_margin",
    "rewards/chosen": "reward_chosen",
    "rewards/rejected": "reward_rejected",
    "completions/mean_length": "completion_length",
}
_LEFT_OUT = frozenset({"epoch", "step_time", "runtime", "samples_per_second", "steps_per_second"})
"""What depends on the machine's mood, and so is not part of a history that two runs share."""


def reported(logs: Mapping[str, object]) -> dict[str, float]:
    """``train_…`` and ``val_…`` values of one log entry; empty for the library's summary at the end."""
    if "train_runtime" in logs:
        return {}
    values: dict[str, float] = {}
    for name, value in logs.items():
        part, plain = ("val", name[5:]) if name.startswith("eval_") else ("train", name)
        if plain in _LEFT_OUT or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        values[f"{part}_{_NAMES.get(plain, plain).replace('/', '_')}"] = float(value)
    return values


def besides(spec: EngineSpec, values: Mapping[str, float]) -> dict[str, float]:
    """Names that a method's charts expect besides; where the loss has two parts, the library reports only the
    sum."""
    if spec.method == "dpo" and "train_loss" in values and not spec.dpo.sft_loss_weight:
        return {"train_preference_loss": values["train_loss"]}
    return {}


def divergence(logs: Mapping[str, object], *, fp16: bool) -> str | None:
    """The values of a log entry that are not finite. With fp16 an infinite gradient is a skipped step."""
    loss, norm = logs.get("loss"), logs.get("grad_norm")
    if isinstance(loss, float) and not math.isfinite(loss):
        return f"the loss is {loss}"
    if isinstance(norm, float) and (math.isnan(norm) or (math.isinf(norm) and not fp16)):
        return f"the gradient's norm is {norm}"
    return None
