"""What comes before every page: who looks, whether they may, and for a change from where it was sent.

Nothing of a body is read before that. A change comes from a form of a page of ours alone: its origin is this
service, and it has the token of its session.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.api import bodies, problems
from nemo_helix_server.api.guard import SAFE, contained
from nemo_helix_server.auth import roles
from nemo_helix_server.errors import ForbiddenError, InvalidError
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.pages.sessions import PageSessions
from nemo_pages.errors import NoSuchPageError, ViewError

LARGEST_FORM = 64 * 1024
CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"
_FORM = "application/x-www-form-urlencoded"

Form = Mapping[str, str]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class PageVisit:
    """A request that was let through."""

    request: Request
    caller: Caller
    csrf: str
    """What the forms of the answer send back."""
    form: Form = field(default_factory=dict)

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        """A value of the query."""
        return self.request.query_params.get(name, default)

    def may(self, role: Role) -> bool:
        """Whether who looks has at least this role."""
        try:
            roles.check_role(self.caller, role)
        except ForbiddenError:
            return False
        return True


Endpoint = Callable[[PageVisit], Response]
AsyncEndpoint = Callable[[PageVisit], Coroutine[Any, Any, Response]]


class ErrorPages(Protocol):
    """Makes the page that says why there is no other."""

    def __call__(self, request: Request, status: int, detail: str, caller: Caller | None) -> Response:
        """A whole page with this status and sentence."""
        ...


@dataclass(frozen=True, slots=True)
class PageGuard:
    """Makes routes of endpoints; each says which role it needs."""

    sessions: PageSessions
    error_page: ErrorPages
    pages_error: Callable[[Request, Exception], Coroutine[Any, Any, Response]]
    """Makes the page of an error that the pages themselves know."""

    def page(self, path: str, endpoint: Endpoint, needs: Role = Role.READ) -> Route:
        """A page that is looked at; the endpoint is called in a thread."""
        return Route(path, self._guarded(_threaded(endpoint), needs), methods=["GET"], name=path)

    def stream(self, path: str, endpoint: AsyncEndpoint, needs: Role = Role.READ) -> Route:
        """The same with an endpoint of the event loop."""
        return Route(path, self._guarded(endpoint, needs), methods=["GET"], name=path)

    def change(self, path: str, endpoint: Endpoint, needs: Role) -> Route:
        """What a form of a page sends."""
        return Route(path, self._guarded(_threaded(endpoint), needs), methods=["POST"], name=path)

    def anybody(
        self, path: str, endpoint: Callable[[Request, Form], Response], methods: tuple[str, ...]
    ) -> Route:
        """For those who are nobody yet; what they send comes from a page of ours, too."""

        async def answered(request: Request) -> Response:
            form: Form = {}
            if request.method not in SAFE:
                check_sender(request)
                form = await read_form(request)
            return await run_in_threadpool(endpoint, request, form)

        return Route(path, self._with_error_pages(answered), methods=list(methods), name=path)

    def _guarded(self, endpoint: AsyncEndpoint, needs: Role) -> Handler:
        async def answered(request: Request) -> Response:
            value = request.cookies.get(self.sessions.cookie) or ""
            caller = await run_in_threadpool(self.sessions.caller, value)
            request.state.page_caller = caller
            roles.check_role(caller, needs)
            workspace = request.path_params.get("workspace")
            if workspace is not None:
                roles.check_workspace(caller, workspace)
            csrf = self.sessions.csrf(value)
            request.state.page_values = {"csrf": csrf, "session": caller}
            if request.method in SAFE:
                return await endpoint(PageVisit(request, caller, csrf))
            check_sender(request)
            form = await read_form(request)
            if not self.sessions.is_csrf(value, request.headers.get(CSRF_HEADER) or form.get(CSRF_FIELD, "")):
                raise ForbiddenError(
                    "this form belongs to another session, or to the one before you signed in again; "
                    "load its page again"
                )
            return await endpoint(PageVisit(request, caller, csrf, form))

        return self._with_error_pages(answered)

    def _with_error_pages(self, handle: Handler) -> Handler:
        async def answered(request: Request) -> Response:
            try:
                return await contained(handle)(request)
            except (NoSuchPageError, ViewError) as error:
                return await self.pages_error(request, error)
            except Exception as error:  # noqa: BLE001 - the table of problems has an answer for each
                problem = await problems.respond(request, error)
                detail = str(orjson.loads(bytes(problem.body))["detail"])
                caller = getattr(request.state, "page_caller", None)
                return await run_in_threadpool(self.error_page, request, problem.status_code, detail, caller)

        return answered


def check_sender(request: Request) -> None:
    """Raise `ForbiddenError` for a change that does not say that a page of this service sent it.

    That a named origin is ours, `request_validation` has seen.
    """
    headers = request.headers
    if headers.get("origin") is None and headers.get("sec-fetch-site") != "same-origin":
        raise ForbiddenError(
            "a change must come from a page of this service, and this does not say that it does"
        )


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; raises what `bodies.read` raises, and `InvalidError`."""
    body = await bodies.read(request.headers, request.receive, LARGEST_FORM)
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise bodies.UnsupportedMediaError(f"the body is {kind[:100]!r}; it must be a form: {_FORM}")
    try:
        pairs = urllib.parse.parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError as error:
        raise InvalidError("the form cannot be read; load its page again") from error
    if any("\0" in text for pair in pairs for text in pair):
        raise InvalidError("the form holds a NUL character")
    return dict(pairs)


def _threaded(endpoint: Endpoint) -> AsyncEndpoint:
    async def called(visit: PageVisit) -> Response:
        return await run_in_threadpool(endpoint, visit)

    return called
