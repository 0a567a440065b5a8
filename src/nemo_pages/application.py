"""The application of pages: routes with the security headers, and errors as pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from nemo_pages.errors import NoSuchPageError, ViewError, WayBack
from nemo_pages.events import Versions, event_routes
from nemo_pages.rendering import Rendering, frame_of, is_partial
from nemo_pages.security import BelowPath, KnownHosts, SecurityHeaders
from nemo_pages.static_files import static_route

_EXPLAINED = {
    401: "Open the address that the server printed at its start, or ask for a new one.",
    403: "You may look at this, but not do that.",
    404: "Nothing has this address. It may have been deleted, or the address may be incomplete.",
    405: "This address does not take that kind of request.",
    503: "The server is busy; try again in a moment.",
}


def page_routes(
    routes: Sequence[BaseRoute], versions: Versions, ended: Callable[[], bool] = lambda: False
) -> list[BaseRoute]:
    """The routes of some pages with those that all pages need: static files and events.

    ``ended``: see `nemo_pages.events.event_routes`.
    """
    return [static_route(), *event_routes(versions, ended=ended), *routes]


def pages_application(
    routes: Sequence[BaseRoute],
    rendering: Rendering,
    *,
    versions: Versions,
    guard: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    ended: Callable[[], bool] = lambda: False,
    root_path: str = "",
    hosts: Collection[str] = (),
) -> ASGIApp:
    """An application of pages alone, below ``root_path``; ``hosts``: the only names it answers for.

    ``guard`` is put in front of the routes: what lets people in.
    """
    app = Starlette(
        routes=page_routes(routes, versions, ended),
        exception_handlers={
            HTTPException: error_handler(rendering),
            NoSuchPageError: error_handler(rendering),
            ViewError: error_handler(rendering),
            Exception: error_handler(rendering),
        },
    )
    app.router.redirect_slashes = False
    return SecurityHeaders(KnownHosts(BelowPath(guard(app), root_path), hosts))


class _ErrorHandler:
    """Makes a page of an error: what happened and what to do; never a traceback."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    async def __call__(self, request: Request, error: Exception) -> Response:
        status, text = _said(error)
        return error_page(self._rendering, request, status, text, getattr(error, "back", None))


def error_handler(rendering: Rendering) -> _ErrorHandler:
    """A handler of exceptions for Starlette."""
    return _ErrorHandler(rendering)


def error_page(
    rendering: Rendering, request: Request, status: int, text: str, back: WayBack | None = None
) -> Response:
    """A page, or the part of one that a script asked for, that says what went wrong and where to go on.

    Without ``back`` it leads to the usual view of a page whose view was not understood, and to all runs.
    """
    refused = status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
    if back is None and refused and request.method == "GET" and request.url.query:
        back = WayBack(frame_of(request).path, "Show this page as usual")
    title = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Error"
    template = "error_part.html" if is_partial(request) else "error.html"
    return rendering.page(request, template, status=status, title=title, code=status, text=text, back=back)


def _said(error: Exception) -> tuple[int, str]:
    if isinstance(error, NoSuchPageError):
        return 404, str(error) or _EXPLAINED[404]
    if isinstance(error, ViewError):
        return 400, str(error)
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase if error.status_code in set(HTTPStatus) else ""
        own = error.detail if error.detail != phrase else ""
        return error.status_code, own or _EXPLAINED.get(error.status_code, "")
    return 500, "This page could not be made; the log of the server says why. Other pages are not affected."
