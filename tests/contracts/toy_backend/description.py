"""What clients know of the backend ``toy``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nemo_helix_plugin.customization.backends import BackendDescription
from nemo_helix_plugin.customization.types.parts import Output
from nemo_helix_plugin.jobs.models import RequestModel


class ToyData(RequestModel):
    """Where the rows are."""

    rows: str


class ToyJobInput(RequestModel):
    """What a job of the backend ``toy`` is told."""

    name: str | None = None
    model: str
    data: ToyData
    rounds: int = Field(default=2, ge=1)
    """How often the words are counted."""
    pace: Literal["walk", "run", "fly"] = "fly"
    output: Output | None = None


DESCRIPTION = BackendDescription(
    name="toy",
    summary="Counting words.",
    input=f"{__name__}:ToyJobInput",
    references={"model": ("model",), "dataset": ("data", "rows")},
)
