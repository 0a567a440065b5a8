"""What all wire types share: requests are strict, responses take what a newer or older service sends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

Item = TypeVar("Item")


class RequestModel(BaseModel):
    """A body or query that is sent to the service; a field nobody knows is an error, on both sides."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, allow_inf_nan=False)


class ResponseModel(BaseModel):
    """A body that the service sends; a field nobody knows is left out: old clients read new services."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class OpenModel(BaseModel):
    """A part of a response that keeps fields nobody knows, because it is handed back as it came."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


def in_utc(value: datetime) -> datetime:
    """The same moment in UTC; a time without a zone is read as UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(in_utc)]
"""A point in time, always aware and in UTC; on the wire ISO 8601 with ``Z``."""


def storable(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """``value`` itself if every JSON reader takes it: whole text, numbers of 64 bits, no endless nesting."""
    try:
        orjson.dumps(value)
    except TypeError as error:
        raise ValueError(f"the object cannot be kept as JSON: {error}") from None
    return value


JsonObject = Annotated[dict[str, JsonValue], AfterValidator(storable)]
"""A free JSON object in a request."""


class Pagination(ResponseModel):
    """The position of a page among all pages."""

    page: int = 1
    page_size: int = 0
    current_page_size: int = 0
    total_pages: int = 0
    total_results: int = 0


class Page(ResponseModel, Generic[Item]):
    """One page of a list; routes that do not page send ``data`` alone."""

    data: list[Item] = Field(default_factory=list)
    pagination: Pagination | None = None
    sort: str | None = None
    filter: Any = None
    """The filter of the request, as it was understood."""

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, body: Any) -> Any:
        return {"data": body} if isinstance(body, list) else body
