"""One HTTP request to the service, before an address and credentials are added to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

SAFE_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Doing these twice is the same as once."""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, without the address and the credentials of a service."""

    method: str
    path: str
    """A template: ``{name}`` is filled from ``parts``, ``{workspace}`` also from the client."""
    parts: Mapping[str, str | None] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    """What becomes JSON; None: no body."""
    file: Path | None = None
    """A file that is sent as it is, in place of JSON; read again for each try."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def repeatable(self) -> bool:
        """Whether the service may see it twice."""
        return self.method in SAFE_METHODS or "Idempotency-Key" in self.headers

    def filled(self, workspace: str | None) -> str:
        """The path; raises ValueError for a part that is missing or cannot be in a path."""
        values = dict(self.parts)
        if "{workspace}" in self.path:
            values["workspace"] = values.get("workspace") or workspace
            if not values["workspace"]:
                message = "no workspace is given: pass workspace=… or make the client with one"
                raise ValueError(message)
        return self.path.format_map({name: _part(name, value) for name, value in values.items()})

    def with_query(self, **changes: Any) -> Request:
        """The same with other query parameters."""
        return replace(self, query={**self.query, **changes})


Body = TypeVar("Body", bound=BaseModel)


def checked(model: type[Body], body: Body | Mapping[str, Any]) -> Body:
    """A body that is a model, also when it came as a mapping; raises ValueError naming what is wrong."""
    return body if isinstance(body, model) else model.model_validate(body)


def parameters(model: type[BaseModel], query: BaseModel | Mapping[str, Any] | None) -> dict[str, Any]:
    """Query parameters out of their model, or out of a mapping that fits it."""
    if query is None:
        return {}
    return checked(model, query).model_dump(exclude_none=True)


def _part(name: str, value: str | None) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if value in {"", ".", ".."}:
        raise ValueError(f"{name} is {value!r}, which names nothing")
    return quote(value, safe="@+")
