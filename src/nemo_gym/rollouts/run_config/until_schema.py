"""When a run may stop before all tasks are asked."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from nemo_gym.rollouts.run_config.values import Index, Number, Strict


class UntilConfig(Strict):
    """One rule; tasks are asked in an order drawn by ``seed`` until it holds."""

    half_width: Annotated[Number, Field(gt=0, lt=0.5)] | None = None
    """Stop once the score is known to within so much, a share: 0.01 is one point of percent."""
    better_than: Annotated[str, Field(min_length=1)] | None = None
    """Stop once it is known whether the score is better or worse than that of this run on the same tasks: a
    run directory, a folder with results, a ``rollouts.jsonl``, or the id of a submission."""
    seed: Index = 0
    """Of the order; another seed is another order."""

    @model_validator(mode="after")
    def _one_rule(self) -> UntilConfig:
        if (self.half_width is None) == (self.better_than is None):
            raise ValueError("needs either half_width or better_than")
        return self

    def rule(self) -> dict[str, float | str]:
        """The rule alone, as it is written."""
        given = {"half_width": self.half_width, "better_than": self.better_than}
        return {name: value for name, value in given.items() if value is not None}
