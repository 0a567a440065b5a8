"""A call before it is made: what is sent, and what becomes of the answer, with or without ``await``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel

from nemo_helix_plugin.client import responses, streams
from nemo_helix_plugin.jobs.models import Page
from nemo_helix_plugin.jobs.schemas import HelixJobLogPage

if TYPE_CHECKING:
    from nemo_helix_plugin.client.session import AsyncSession, Session

Model = TypeVar("Model", bound=BaseModel)
Sync = TypeVar("Sync")
Async = TypeVar("Async")

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
    """A file that is sent as it is, in place of JSON; read anew for each try."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def repeatable(self) -> bool:
        """Whether the service may see it twice."""
        return self.method in SAFE_METHODS or "Idempotency-Key" in self.headers

    def filled(self, workspace: str | None) -> str:
        """The path; raises ValueError for a part that is missing or cannot stand in a path."""
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


@dataclass(frozen=True, slots=True)
class Call(Generic[Sync, Async]):
    """A request, and how its answer is made into what the caller gets."""

    request: Request
    sync: Callable[[Session, Request], Sync]
    asynchronous: Callable[[AsyncSession, Request], Awaitable[Async]]


def single(
    request: Request, model: type[Model]
) -> Call[responses.NemoResponse[Model], responses.NemoResponse[Model]]:
    """A call that is answered with one object."""

    def sync(session: Session, request: Request) -> responses.NemoResponse[Model]:
        return responses.NemoResponse.of(session.send(request), model, session.options.where)

    async def asynchronous(session: AsyncSession, request: Request) -> responses.NemoResponse[Model]:
        return responses.NemoResponse.of(await session.send(request), model, session.options.where)

    return Call(request, sync, asynchronous)


def nothing(request: Request) -> Call[responses.NemoResponse[None], responses.NemoResponse[None]]:
    """A call whose answer has no body."""

    def sync(session: Session, request: Request) -> responses.NemoResponse[None]:
        return responses.NemoResponse(session.send(request), None)

    async def asynchronous(session: AsyncSession, request: Request) -> responses.NemoResponse[None]:
        return responses.NemoResponse(await session.send(request), None)

    return Call(request, sync, asynchronous)


def _page_of(model: type[Model]) -> type[Page[Model]]:
    made: Any = Page.__class_getitem__(model)  # a class made for this model, not an annotation
    return cast("type[Page[Model]]", made)


def paged(
    request: Request, model: type[Model]
) -> Call[responses.PagedResponse[Model], responses.AsyncPagedResponse[Model]]:
    """A call that is answered with one page of a list."""
    page = _page_of(model)

    def sync(session: Session, request: Request) -> responses.PagedResponse[Model]:
        def load(number: int) -> responses.NemoResponse[Page[Model]]:
            numbered = request if number == first else request.with_query(page=number)
            return responses.NemoResponse.of(session.send(numbered), page, session.options.where)

        first = int(request.query.get("page") or 1)
        return responses.PagedResponse(load(first), load)

    async def asynchronous(session: AsyncSession, request: Request) -> responses.AsyncPagedResponse[Model]:
        async def load(number: int) -> responses.NemoResponse[Page[Model]]:
            numbered = request if number == first else request.with_query(page=number)
            return responses.NemoResponse.of(await session.send(numbered), page, session.options.where)

        first = int(request.query.get("page") or 1)
        return responses.AsyncPagedResponse(await load(first), load)

    return Call(request, sync, asynchronous)


def logs(request: Request) -> Call[responses.LogResponse, responses.AsyncLogResponse]:
    """A call that is answered with a part of a log and a cursor to the next one."""
    whole = not (request.query.get("page_cursor") or request.query.get("tail"))

    def sync(session: Session, request: Request) -> responses.LogResponse:
        def load(cursor: str | None) -> responses.NemoResponse[HelixJobLogPage]:
            answer = session.send(request if cursor is None else request.with_query(page_cursor=cursor))
            return responses.NemoResponse.of(answer, HelixJobLogPage, session.options.where)

        return responses.LogResponse(load(None), load, whole=whole)

    async def asynchronous(session: AsyncSession, request: Request) -> responses.AsyncLogResponse:
        async def load(cursor: str | None) -> responses.NemoResponse[HelixJobLogPage]:
            answer = await session.send(request if cursor is None else request.with_query(page_cursor=cursor))
            return responses.NemoResponse.of(answer, HelixJobLogPage, session.options.where)

        return responses.AsyncLogResponse(await load(None), load, whole=whole)

    return Call(request, sync, asynchronous)


def binary(request: Request) -> Call[streams.BinaryResponse, streams.AsyncBinaryResponse]:
    """A call that is answered with bytes; nothing is asked for before they are read."""

    def sync(session: Session, request: Request) -> streams.BinaryResponse:
        return streams.BinaryResponse(lambda: session.stream(request))

    async def asynchronous(session: AsyncSession, request: Request) -> streams.AsyncBinaryResponse:
        return streams.AsyncBinaryResponse(lambda: session.stream(request))

    return Call(request, sync, asynchronous)


def events(request: Request) -> Call[streams.EventStream, streams.AsyncEventStream]:
    """A call that is answered with server-sent events; it is made when they are read."""

    def sync(session: Session, request: Request) -> streams.EventStream:
        return streams.EventStream(lambda: session.stream(request))

    async def asynchronous(session: AsyncSession, request: Request) -> streams.AsyncEventStream:
        return streams.AsyncEventStream(lambda: session.stream(request))

    return Call(request, sync, asynchronous)
