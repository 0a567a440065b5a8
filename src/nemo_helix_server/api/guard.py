"""What comes before every route: who asks and whether they may, and only then the request's body.

A route that does not say who may use it cannot be made. A body is read within the bounds of `bodies`; only a
route that is marked with `takes_a_file` gets it as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from nemo_helix_server.api import access, bodies
from nemo_helix_server.api.access import Access

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose bodies nobody reads."""
_TAKES_A_FILE = "__takes_a_file__"
_ESCAPES = (SystemExit, KeyboardInterrupt, asyncio.CancelledError)
"""What code of other packages may raise, and what would end the service's loop: signals come otherwise."""


class EscapedError(Exception):
    """A request met code that wanted to end the program."""


def takes_a_file(endpoint: Endpoint) -> Endpoint:
    """Mark a route whose body is a file, which it reads itself, part by part."""
    setattr(endpoint, _TAKES_A_FILE, True)
    return endpoint


class GuardedRoute(APIRoute):
    """A route of the service."""

    @property
    def streams(self) -> bool:
        """Whether its body is a file."""
        return getattr(self.endpoint, _TAKES_A_FILE, False)

    @property
    def access(self) -> Access:
        """Who may use it; raises TypeError when it does not say."""
        found = [part.call for part in _all(self.dependant) if isinstance(part.call, Access)]
        if len(found) != 1:
            raise TypeError(f"the route {self.name} must say once who may use it, as `access` has it")
        return found[0]

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle, needed, streams = super().get_route_handler(), self.access, self.streams

        async def guarded(request: Request) -> Response:
            await access.identify(request, needed)
            await _checked(needed, needed.admit, request)
            if request.method in SAFE:
                return await handle(request)
            if streams:
                return await handle(Request(request.scope, bodies.paced(request.receive)))
            body, value = await bodies.read_json(request.headers, request.receive)
            await _checked(needed, needed.admit_body, request, value)
            return await handle(Request(request.scope, bodies.replayed(body, request.receive)))

        return contained(guarded)


def contained(
    handle: Callable[[Request], Coroutine[Any, Any, Response]],
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """The same, with `EscapedError` for what would end the service's loop."""

    async def answered(request: Request) -> Response:
        try:
            return await handle(request)
        except _ESCAPES as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise  # the request itself is given up
            raise EscapedError(f"{request.url.path}: {type(error).__name__}: {error}") from error

    return answered


def make_router(prefix: str = "", tags: list[str] | None = None) -> APIRouter:
    """A router whose routes are guarded; a path that ends with a slash is another path."""
    return APIRouter(prefix=prefix, tags=list(tags or ()), route_class=GuardedRoute, redirect_slashes=False)


async def _checked(needed: Access, check: Callable[..., None], *given: Any) -> None:
    """Let a route's `Access` check a request, in a thread where that may take long."""
    if needed.looks_up:
        await run_in_threadpool(check, *given)
    else:
        check(*given)


def _all(dependant: Dependant) -> list[Dependant]:
    return [dependant, *(found for part in dependant.dependencies for found in _all(part))]
