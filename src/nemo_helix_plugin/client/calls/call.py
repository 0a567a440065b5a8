"""A call before it is made: what is sent, and what becomes of the answer, with or without ``await``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pydantic import BaseModel

from nemo_helix_plugin.client import responses, streams
from nemo_helix_plugin.client.request import Request
from nemo_helix_plugin.jobs.models import Page
from nemo_helix_plugin.jobs.schemas import HelixJobLogPage

if TYPE_CHECKING:
    from nemo_helix_plugin.client.session import AsyncSession, ClientSession

Model = TypeVar("Model", bound=BaseModel)
Sync = TypeVar("Sync")
Async = TypeVar("Async")


@dataclass(frozen=True, slots=True)
class Call(Generic[Sync, Async]):
    """A request, and how its answer is made into what the caller gets."""

    request: Request
    sync: Callable[[ClientSession, Request], Sync]
    asynchronous: Callable[[AsyncSession, Request], Awaitable[Async]]


def single(
    request: Request, model: type[Model]
) -> Call[responses.NemoResponse[Model], responses.NemoResponse[Model]]:
    """A call that is answered with one object."""

    def sync(session: ClientSession, request: Request) -> responses.NemoResponse[Model]:
        return responses.NemoResponse.of(session.send(request), model, session.options.where)

    async def asynchronous(session: AsyncSession, request: Request) -> responses.NemoResponse[Model]:
        return responses.NemoResponse.of(await session.send(request), model, session.options.where)

    return Call(request, sync, asynchronous)


def nothing(request: Request) -> Call[responses.NemoResponse[None], responses.NemoResponse[None]]:
    """A call whose answer has no body."""

    def sync(session: ClientSession, request: Request) -> responses.NemoResponse[None]:
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

    def sync(session: ClientSession, request: Request) -> responses.PagedResponse[Model]:
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

    def sync(session: ClientSession, request: Request) -> responses.LogResponse:
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

    def sync(session: ClientSession, request: Request) -> streams.BinaryResponse:
        return streams.BinaryResponse(lambda: session.stream(request))

    async def asynchronous(session: AsyncSession, request: Request) -> streams.AsyncBinaryResponse:
        return streams.AsyncBinaryResponse(lambda: session.stream(request))

    return Call(request, sync, asynchronous)


def events(request: Request) -> Call[streams.EventStream, streams.AsyncEventStream]:
    """A call that is answered with server-sent events; it is made when they are read."""

    def sync(session: ClientSession, request: Request) -> streams.EventStream:
        return streams.EventStream(lambda: session.stream(request))

    async def asynchronous(session: AsyncSession, request: Request) -> streams.AsyncEventStream:
        return streams.AsyncEventStream(lambda: session.stream(request))

    return Call(request, sync, asynchronous)
