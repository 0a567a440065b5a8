"""Signing in and out: by an address that works once, by an access token, and the making of such addresses."""

from __future__ import annotations

import getpass
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.api import bodies, problems
from nemo_helix_server.auth import roles, tokens
from nemo_helix_server.auth.authentication import Authenticator
from nemo_helix_server.errors import ForbiddenError, InvalidError, UnauthenticatedError, UnavailableError
from nemo_helix_server.pages.guard import Form, PageGuard, PageVisit
from nemo_helix_server.pages.sessions import HOW_TO_ENTER, PageGrant, PageSessions
from nemo_helix_server.settings import PagesSettings

ENTER = "/pages/enter"
LEAVE = "/pages/leave"
CODES = "/pages/codes"
_NEVER_STORED = {"cache-control": "no-store"}


class CodeRequest(BaseModel):
    """For whom an address is."""

    model_config = ConfigDict(extra="forbid")

    role: Role | None = None
    """What the browser may do; unset = what the caller may."""
    workspace: str | None = None
    """The only workspace that it is for; unset = the caller's."""


@dataclass(frozen=True, slots=True)
class PageEntrance:
    """The routes of signing in and out."""

    sessions: PageSessions
    authenticator: Authenticator
    address: Callable[[str], str]
    """The whole address of a code, as a browser reaches it."""
    root_path: str
    sign_in: Callable[[Request, int, str], Response]
    """The page with the form for a token, with a status and what is to be said; empty: nothing."""

    def routes(self, guard: PageGuard) -> list[BaseRoute]:
        """All of them."""
        return [
            guard.anybody(ENTER, self.enter, ("GET", "POST")),
            guard.change(LEAVE, self.leave, Role.READ),
            Route(CODES, self.make_code, methods=["POST"], name=CODES),
        ]

    def enter(self, request: Request, form: Form) -> Response:
        """Open an address that works once, or ask for an access token and take it."""
        if request.method == "POST":
            return self._entered(request, self._with_token(form.get("token", "").strip()))
        code = request.query_params.get("code", "")
        if not code:
            return self.sign_in(request, 200, "")
        if request.method == "HEAD" or "prefetch" in _purpose(request):
            raise UnavailableError("this address is opened by a person, once, and not looked at before")
        return self._entered(request, self.sessions.enter(code))

    def leave(self, visit: PageVisit) -> Response:
        """End the session of this browser."""
        self.sessions.leave(visit.request.cookies[self.sessions.cookie])
        response = RedirectResponse(self.root_path + ENTER, HTTPStatus.SEE_OTHER, _NEVER_STORED)
        response.delete_cookie(self.sessions.cookie, path=self.root_path or "/")
        return response

    async def make_code(self, request: Request) -> Response:
        """Make an address for the holder of a token; a browser's cookie is not one."""
        try:
            return JSONResponse(await self._made(request), headers=_NEVER_STORED)
        except Exception as error:  # noqa: BLE001 - the table of problems has an answer for each
            return await problems.respond(request, error)

    async def _made(self, request: Request) -> dict[str, Any]:
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not credentials:
            raise UnauthenticatedError(f"this needs an access token; {tokens.HOW_TO_GET_ONE}")
        who = await run_in_threadpool(self.authenticator.principal, credentials)
        if who.claims is not None:
            raise ForbiddenError("the token of a step does not open pages")
        _, value = await bodies.read_json(request.headers, request.receive)
        try:
            wanted = CodeRequest.model_validate({} if value is None else value)
        except ValidationError as error:
            raise InvalidError(str(error.errors()[0]["msg"])) from error
        grant = PageGrant(
            name=who.caller.name,
            role=(wanted.role or Role(who.caller.role)).value,
            workspace=wanted.workspace or who.caller.workspace,
            token=tokens.digest_of(credentials) if credentials.startswith(tokens.PREFIX) else None,
        )
        roles.check_role(who.caller, Role(grant.role))
        roles.check_workspace(who.caller, grant.workspace or roles.EVERYWHERE)
        code = await run_in_threadpool(self.sessions.code, grant)
        return {"address": self.address(code), "seconds": self.sessions.code_seconds}

    def _with_token(self, token: str) -> str:
        if not token:
            raise UnauthenticatedError(f"an access token is needed; {HOW_TO_ENTER}")
        return self.sessions.with_token(token)

    def _entered(self, request: Request, value: str) -> Response:
        before = request.cookies.get(self.sessions.cookie)
        if before:
            self.sessions.leave(before)
        response = RedirectResponse(f"{self.root_path}/", HTTPStatus.SEE_OTHER, _NEVER_STORED)
        response.set_cookie(
            self.sessions.cookie,
            value,
            max_age=self.sessions.seconds,
            path=self.root_path or "/",
            secure=_is_encrypted(request),
            httponly=True,
            samesite="strict",
        )
        return response


def address(base_url: str, given: PagesSettings, code: str) -> str:
    """The address of a code, as a browser reaches it: through the first proxy that is named, if any."""
    query = urllib.parse.urlencode({"code": code})
    return f"{next(iter(given.origins), base_url)}{given.root_path}{ENTER}?{query}"


def owner(role: Role = Role.ADMIN) -> PageGrant:
    """Who started the service."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "local"
    return PageGrant(name=name, role=role.value)


def _purpose(request: Request) -> str:
    return f"{request.headers.get('sec-purpose', '')} {request.headers.get('purpose', '')}".lower()


def _is_encrypted(request: Request) -> bool:
    """Whether the browser speaks TLS, to the proxy at least; a lie spoils the liar's own cookie alone."""
    return "https" in {request.url.scheme, request.headers.get("x-forwarded-proto", "").split(",")[0].strip()}
