"""What is looked at while a training runs: the same fields in the input spec of every backend."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from nemo_helix_plugin.customization.types.parts import Positive, Text
from nemo_helix_plugin.jobs.models import RequestModel

Device = Annotated[str, StringConstraints(pattern=r"^(same|cpu|cuda(:[0-9]{1,4})?)$")]
_MOST_PROMPTS = 8
Direction = Literal["lowest", "highest"]
"""Which value of a metric is the best one."""


class EarlyStopping(RequestModel):
    """End the training when a metric of its evaluations no longer gets better."""

    metric: Text | None = None
    """Such as ``val_loss``; ``None`` = what is validated: ``val_loss``, with GRPO ``val_reward``; without
    rows to validate with the score of ``eval``."""
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


class CheckpointEvaluation(RequestModel):
    """Ask the model while it is trained: a benchmark of ``gym``, fixed prompts, or both."""

    benchmark: Text | None = None
    """Name of a benchmark that `gym list benchmarks` shows, or a fileset or folder with a ``config.yaml``."""
    every: Positive = 100
    """Steps between two evaluations; the last step is evaluated too."""
    limit: Positive = 100
    """The first so many rows of the benchmark."""
    device: Device = "same"
    """``same``: that of the training, which waits; ``cpu`` or ``cuda:1``: beside the training."""
    prompts: Annotated[list[Text], Field(max_length=_MOST_PROMPTS)] = Field(default_factory=list)
    """Asked each time, so that their answers can be read side by side."""
    batch_size: Positive = 8
    """Questions that are answered at once."""
    max_new_tokens: Positive = 256
    """Tokens of an answer, where the benchmark does not say it."""

    @model_validator(mode="after")
    def _asks_something(self) -> CheckpointEvaluation:
        if self.benchmark is None and not self.prompts:
            raise ValueError("eval asks nothing: give eval.benchmark, eval.prompts or both")
        return self

    @property
    def name(self) -> str | None:
        """What the benchmark is called."""
        return None if self.benchmark is None else self.benchmark.rstrip("/").rpartition("/")[2]

    @property
    def metric(self) -> str | None:
        """What its score is called among the metrics: ``eval_arithmetic``."""
        if self.name is None:
            return None
        return f"eval_{re.sub(r'[^a-z0-9]+', '_', self.name.lower()).strip('_') or 'score'}"
