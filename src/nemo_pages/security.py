"""What every answer forbids the browser, and below which path and for which hosts pages answer."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""Headers of every answer; `frame-ancestors` and the like keep other sites from embedding a page.

With ``no-referrer`` browsers would send forms with the origin ``null``, which is refused.
"""


class SecurityHeaders:
    """Puts `HEADERS` on every answer, and has browsers ask again for what is not a static file."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)


class BelowPath:
    """Answers below a path, whether a proxy in front takes the path away (Jupyter) or not (Open OnDemand)."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        """``root_path``: empty, or a path such as ``/user/ann/proxy/8123``."""
        self._app = app
        self._root = root_path.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] in ("http", "websocket") and self._root:
            path = scope["path"]
            below = path == self._root or path.startswith(f"{self._root}/")
            full = path if below else f"{self._root}{path}"
            scope = {**scope, "root_path": self._root, "path": full}
            if full == self._root:
                scope["path"] = f"{full}/"
        await self._app(scope, receive, send)


class KnownHosts:
    """Refuses a request that was addressed to another host.

    A page of a stranger's site whose name resolves to this machine could read the answers otherwise.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """``hosts``: names without ports, in small letters; empty for every host."""
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and self._hosts:
            named = dict(scope["headers"]).get(b"host", b"").decode("latin-1").lower()
            if host_name(named) not in self._hosts:
                allowed = ", ".join(sorted(self._hosts))
                text = f"This server answers for {allowed}, not for {host_name(named)[:100] or 'no host'}.\n"
                await PlainTextResponse(text, status_code=421)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def host_name(host: str) -> str:
    """A Host header without its port; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
