"""What is looked at while a training runs: the same fields in the input spec of every backend."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from nemo_helix_plugin.customization.types.parts import Positive, Text
from nemo_helix_plugin.jobs.models import RequestModel

Direction = Literal["lowest", "highest"]
"""Which value of a metric is the best one."""


class EarlyStopping(RequestModel):
    """End the training when a metric of its evaluations no longer gets better."""

    metric: Text | None = None
    """Such as ``val_loss``; ``None`` = what is validated: ``val_loss``, with GRPO ``val_reward``."""
    direction: Direction | None = None
    """``None`` = the lowest of a loss, the highest of everything else."""
    patience: Positive = 3
    """Evaluations in a row that are not better than the best one before them."""
    min_change: Annotated[float, Field(ge=0)] = 0.0
    """An evaluation is better when it is so by more than this."""


class BestCheckpoint(RequestModel):
    """Keep the checkpoint that is best by a metric, whatever else is removed."""

    metric: Text | None = None
    """``None`` = that of ``early_stopping``, or what is validated."""
    direction: Direction | None = None
    """``None`` = the lowest of a loss, the highest of everything else."""
    publish: Literal["best", "last"] = "best"
    """Which weights become the trained model."""
