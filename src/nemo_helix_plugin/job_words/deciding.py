"""What a training has decided by its evaluations, in words: the best checkpoint, and an early end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runs.counts import counted

Record = Mapping[str, Any]


def best_checkpoint(found: Record) -> str:
    """``step 300, val_loss 1.234; it becomes the model``, or nothing where no metric chooses."""
    best = found.get("best_checkpoint")
    step, value = _of(best, "step"), _of(best, "value")
    if not isinstance(best, Mapping) or step is None or value is None:
        return ""
    becomes = "; it becomes the model" if best.get("published") else ""
    return f"step {step:.0f}, {best.get('metric')} {value:.4g}{becomes}"


def best_step(found: Record) -> int | None:
    """The step of the best checkpoint."""
    step = _of(found.get("best_checkpoint"), "step")
    return None if step is None else int(step)


def early_stopping(found: Record) -> str:
    """When a training ends early, and how near that is; or that it has ended so, and why."""
    stopping = found.get("early_stopping")
    if not isinstance(stopping, Mapping):
        return ""
    metric, patience = stopping.get("metric"), int(_of(stopping, "patience") or 0)
    waited, least = int(_of(stopping, "waited") or 0), _of(stopping, "min_change") or 0.0
    best, at = _of(stopping, "best"), _of(stopping, "best_step")
    better = "lower" if stopping.get("direction") == "lowest" else "higher"
    by = f" by more than {least:g}" if least else ""
    said = f"in {counted(patience, 'evaluation')}"
    since = "" if best is None or at is None else f" than {best:.4g} at step {at:.0f}"
    stopped = _of(stopping, "stopped_at")
    if stopped is not None:
        return f"ended at step {stopped:.0f}: {metric} was not {better}{by}{since} {said}"
    return f"when {metric} is not {better}{by}{since} {said}; {waited} of them so far"


def _of(value: Any, key: str) -> float | None:
    found = value.get(key) if isinstance(value, Mapping) else None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
