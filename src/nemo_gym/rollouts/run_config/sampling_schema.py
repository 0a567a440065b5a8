"""Sampling parameters in a configuration."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from pydantic import Field, field_validator, model_validator

from nemo_gym.rollouts.run_config.row_params import of_the_run_in_extra_body
from nemo_gym.rollouts.run_config.values import Count, Number, Seed, Strict


class SamplingConfig(Strict):
    """Sampling parameters, put over those of each row; null leaves the row's or the server's own."""

    temperature: Annotated[Number, Field(ge=0)] | None = None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    max_output_tokens: Count | None = None
    seed: Seed | None = None
    stop: str | list[str] | None = None
    frequency_penalty: Number | None = None
    presence_penalty: Number | None = None
    reasoning: dict[str, Any] | None = None
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further parameters, passed on as they are."""

    @field_validator("extra_body")
    @classmethod
    def _leaves_the_run_alone(cls, value: dict[str, Any]) -> dict[str, Any]:
        if problem := of_the_run_in_extra_body(value):
            raise ValueError(problem)
        return value

    @model_validator(mode="after")
    def _can_be_sent(self) -> SamplingConfig:
        try:
            orjson.dumps(self.given())
        except TypeError as error:
            raise ValueError(f"holds what no request can ({str(error).rstrip('.')})") from error
        return self

    def given(self) -> dict[str, Any]:
        """The parameters that are set."""
        chosen = self.model_dump(exclude_none=True)
        if not chosen["extra_body"]:
            del chosen["extra_body"]
        return chosen
