"""What an hour of a GPU and a million tokens cost."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.orchestration.config.values import Text

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TokenPrice(BaseModel):
    """Of a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    input: Price
    output: Price


class PriceList(BaseModel):
    """Prices in one currency; what is not listed has no known price, and is not free."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    currency: Text | None = None
    """A label: nothing is converted."""
    gpu_hour: dict[Text, Price] = {}
    """By type of GPU (as in ``gpus-per-node=TYPE:8`` or ``gres``), partition, or name of a compute entry; the
    first of these that is listed counts, and ``default`` for all others."""
    core_hour: dict[Text, Price] = {}
    """By partition or name of a compute entry, and ``default``."""
    million_tokens: dict[Text, TokenPrice] = {}
    """By the name of the model, as it is asked for or as the server calls it."""
