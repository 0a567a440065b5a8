"""Kinds of values in a run configuration."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not a truth value")  # noqa: TRY004 - pydantic's protocol
    return value


Count = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=1)]
"""A whole number from 1."""
Index = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=0)]
"""A whole number from 0."""
Number = Annotated[float, BeforeValidator(_no_truth_value), Field(allow_inf_nan=False)]
Seconds = Annotated[float, BeforeValidator(_no_truth_value), Field(ge=0, allow_inf_nan=False)]


def is_address(url: str) -> bool:
    """Whether host and port can be made out."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
