"""What one metric of a run came to, as summaries keep it; their readers load nothing that grades or asks."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from nemo_gym.rollouts.scores.statistics import LEVEL

Over = Literal["rollouts", "tasks", "run"]
"""What a metric is of: its mean over rollouts, its mean over tasks, or one value of the whole run."""


@dataclass(frozen=True, slots=True)
class MeasuredMetric:
    """One metric of a run."""

    value: float | None
    """``None`` when nothing has a value."""
    over: Over
    low: float | None = None
    high: float | None = None
    """Ends of the 95 % interval, clustered by task; ``None`` where it has no end or is not known."""
    std_error: float | None = None
    count: int = 0
    """Rollouts, or tasks, that have a value; of a run the rollouts that it was made of."""
    missing: int = 0
    """Rollouts, or tasks, that have none."""
    higher_is_better: bool | None = None
    """As the verifier declares; ``None``: neither, or not declared."""
    least: float | None = None
    most: float | None = None
    """The possible values, as declared; ``None``: no bound."""

    @property
    def width(self) -> float:
        """The greatest difference that two values can have."""
        return math.inf if self.least is None or self.most is None else self.most - self.least

    def to_json(self) -> dict[str, Any]:
        """As the summary has it."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """For a person, without its name."""
        words = "no value" if self.value is None else f"{self.value:.4g}"
        if self.low is not None and self.high is not None:
            words += f"  ({LEVEL:.0%} interval {self.low:.4g} to {self.high:.4g})"
        elif self.std_error is not None:
            words += f" ± {self.std_error:.2g}"
        notes = []
        if self.over != "rollouts":
            notes.append("of each task" if self.over == "tasks" else "of the whole run")
        if self.missing:
            notes.append(f"{self.missing:,} of {self.count + self.missing:,} have no value")
        if self.higher_is_better is False:
            notes.append("lower is better")
        return "; ".join([words, *notes])
