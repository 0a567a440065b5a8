"""Requests and responses of the models' routes."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from nemo_helix_plugin.jobs import models, names
from nemo_helix_plugin.jobs.requests import ShortText


class CreateModelRequest(models.RequestModel):
    """A model whose weights are in a fileset."""

    name: names.EntityName
    fileset: names.EntityName
    kind: Literal["full", "adapter"] = "full"
    base_model: ShortText | None = None
    """What it was trained from; an adapter is attached to it."""
    description: ShortText | None = None
    created_by_job: ShortText | None = None

    @model_validator(mode="after")
    def _adapter_has_a_base(self) -> CreateModelRequest:
        if self.kind == "adapter" and self.base_model is None:
            raise ValueError("base_model is missing: an adapter is attached to one")
        return self


class Model(models.ResponseModel):
    """A model by name."""

    name: str
    workspace: str | None = None
    fileset: str
    kind: str = "full"
    base_model: str | None = None
    description: str | None = None
    created_by_job: str | None = None
    created_by: str | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None
