"""Judge models in a configuration: which model, where, and how it is asked."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator, model_validator

from nemo_gym.rollouts.policy.apis import Api
from nemo_gym.rollouts.policy.instruction_roles import SystemRole
from nemo_gym.rollouts.run_config.sampling_schema import SamplingConfig
from nemo_gym.rollouts.run_config.values import (
    Count,
    Number,
    Seconds,
    Strict,
    api_key_reference,
    base_address,
)

Price = Annotated[Number, Field(ge=0)]


class TokenPrices(Strict):
    """What a million tokens cost, in whatever currency."""

    input: Price = 0.0
    output: Price = 0.0


class JudgeModelConfig(Strict):
    """One judge model; its address is either given or that of a service of the job."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """Its name at the server; with ``service`` null means the service's own."""
    api: Api = "chat"
    base_url: str | None = None
    """Up to and including ``/v1``."""
    service: str | None = None
    """In a submission: the service of the job that answers, in place of ``base_url`` and ``api_key``."""
    api_key: str = "dummy"
    """``dummy``, or ``host:VAR``: the value of the environment variable VAR when the run starts."""
    system_role: SystemRole | None = None
    params: SamplingConfig = Field(default_factory=SamplingConfig)
    """Sampling parameters, put over those of the verifier."""
    num_in_parallel: Count = 16
    """Requests in flight."""
    request_timeout_seconds: Annotated[Seconds, Field(gt=0)] = 600
    max_request_attempts: Count = 5
    price_per_million_tokens: TokenPrices | None = None

    @field_validator("api_key")
    @classmethod
    def _no_literal_key(cls, value: str) -> str:
        return api_key_reference(value)

    @field_validator("base_url")
    @classmethod
    def _is_base_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        return None if value is None else base_address(value, info.data.get("api", "chat"))

    @model_validator(mode="after")
    def _has_an_address(self) -> JudgeModelConfig:
        if (self.base_url is None) == (self.service is None):
            raise ValueError("needs either a base_url (--judge-url) or a service")
        if self.service is None and self.model is None:
            raise ValueError("needs a model, its name at the server")
        return self
