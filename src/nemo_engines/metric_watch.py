"""Which checkpoint is the best so far, and whether training is to end before its last step.

Pure: a training that was paused, killed or rerun decides as one that was left alone, since what this knows is
kept with each checkpoint, and only the evaluations after it come again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from nemo_engines.sections import EarlyEnd, Save

Order = Literal["lowest", "highest"]
STATE: Final = "metric_watch"
"""The key of the state in a checkpoint's manifest, among what its engine needs."""


@dataclass(slots=True)
class MetricWatch:
    """What was evaluated so far. It gets every evaluation once, in the order of steps."""

    save: Save
    early_stopping: EarlyEnd = field(default_factory=EarlyEnd)
    best: float | None = None
    """The best value of ``save.best_metric`` among those that have a checkpoint."""
    best_step: int | None = None
    """The step of the checkpoint with that value; of equal ones the first."""
    reference: float | None = None
    """The value of the metric of early stopping that a later one must be better than."""
    reference_step: int | None = None
    waited: int = 0
    """Evaluations since then."""
    stopped_at: int | None = None
    """The step whose evaluation ended the training."""
    evaluated_step: int = 0
    """The last step of which the evaluation by a benchmark was taken."""

    def observe(self, step: int, values: Mapping[str, float], *, saved: bool) -> bool:
        """Take an evaluation; whether training is to end now. ``saved``: a checkpoint of the step is there,
        or is made next."""
        value = _finite(values.get(self.early_stopping.metric or ""))
        if value is not None and self.stopped_at is None:
            self._count(step, value)
        ends = self.stopped_at is not None
        value = _finite(values.get(self.save.best_metric or ""))
        if (saved or ends) and value is not None and _is_better(value, self.best, self.save.best_is):
            self.best, self.best_step = value, step
        return ends

    def _count(self, step: int, value: float) -> None:
        stopping = self.early_stopping
        if _is_better(value, self.reference, stopping.best_is, by=stopping.min_change):
            self.reference, self.reference_step, self.waited = value, step, 0
        else:
            self.waited += 1
        if self.waited >= stopping.patience:
            self.stopped_at = step

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON values."""
        return {
            "best": self.best,
            "best_step": self.best_step,
            "reference": self.reference,
            "reference_step": self.reference_step,
            "waited": self.waited,
            "stopped_at": self.stopped_at,
            "evaluated_step": self.evaluated_step,
        }

    def restore(self, state: object) -> bool:
        """Take up a checkpoint's state; whether it had one: those of earlier versions have none."""
        if not isinstance(state, Mapping):
            return False
        self.best, self.reference = _finite(state.get("best")), _finite(state.get("reference"))
        self.best_step, self.reference_step = (
            _step(state.get("best_step")),
            _step(state.get("reference_step")),
        )
        self.waited, self.stopped_at = _step(state.get("waited")) or 0, _step(state.get("stopped_at"))
        self.evaluated_step = _step(state.get("evaluated_step")) or 0
        return True

    def fields(self) -> dict[str, Any]:
        """What the progress says of it; a key of what is not watched is not there."""
        found: dict[str, Any] = {}
        if self.save.best_metric is not None and self.best_step is not None:
            found["best_checkpoint"] = {
                "step": self.best_step,
                "metric": self.save.best_metric,
                "value": self.best,
                "published": self.save.output == "best",
            }
        stopping = self.early_stopping
        if stopping.metric is not None:
            found["early_stopping"] = {
                "metric": stopping.metric,
                "direction": stopping.best_is,
                "patience": stopping.patience,
                "min_change": stopping.min_change,
                "waited": self.waited,
                "best": self.reference,
                "best_step": self.reference_step,
                "stopped_at": self.stopped_at,
            }
        return found


def _is_better(value: float, than: float | None, order: Order, *, by: float = 0.0) -> bool:
    if than is None:
        return True
    return value < than - by if order == "lowest" else value > than + by


def _finite(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None  # type: ignore[arg-type]


def _step(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
