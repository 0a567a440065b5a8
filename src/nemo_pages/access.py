"""Who may look: the person who was given the address with the key, from then on by a cookie."""

from __future__ import annotations

import secrets
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_pages.application import error_page
from nemo_pages.rendering import Rendering

PARAMETER = "key"


class KeyRequired:
    """Answers only those who have the key: other users of the same machine can reach its ports too."""

    def __init__(
        self, app: ASGIApp, rendering: Rendering, *, key: str, name: str, root_path: str = ""
    ) -> None:
        """``name`` is that of the cookie, which differs between servers of one host."""
        self._app = app
        self._rendering = rendering
        self._key = key
        self._name = name
        self._path = f"{root_path.rstrip('/')}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or "/pages/static/" in scope["path"]:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        given = request.query_params.get(PARAMETER)
        if given is not None and self._fits(given) and scope["method"] in ("GET", "HEAD"):
            await self._with_cookie(request)(scope, receive, send)
        elif self._fits(request.cookies.get(self._name, "")):
            await self._app(scope, receive, send)
        else:
            text = "Open the address that the server printed when it started; the key in it lets you in."
            await error_page(self._rendering, request, 401, text)(scope, receive, send)

    def _fits(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._key.encode())

    def _with_cookie(self, request: Request) -> RedirectResponse:
        """Send the browser to the same page without the key, so that no history or log keeps it."""
        query = [pair for pair in request.query_params.multi_items() if pair[0] != PARAMETER]
        path = "/" + quote(request.scope["path"].lstrip("/"))
        address = f"{path}?{urlencode(query)}" if query else path
        answer = RedirectResponse(address, status_code=303)
        answer.set_cookie(self._name, self._key, httponly=True, samesite="strict", path=self._path)
        return answer
