"""Answers that carry whole series of metrics: checked like any other, but not point by point."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response


def metrics_response(model: type[BaseModel], document: dict[str, Any], *, status: int = 200) -> Response:
    """A document as an answer; what is below ``status_details.metrics`` comes from the store as it is."""
    details = dict(document["status_details"])
    metrics = details.pop("metrics", None)
    checked = model.model_validate({**document, "status_details": details}).model_dump(mode="json")
    if metrics is not None:
        checked["status_details"]["metrics"] = metrics
    return Response(orjson.dumps(checked), status, media_type="application/json")
