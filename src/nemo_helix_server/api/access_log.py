"""A line for each request: method, path, status, duration. Never a header, never the value of a query."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger("nemo_helix_server.access")
_QUIET = frozenset({"/health", "/status"})


class AccessLog:
    """The ASGI layer that writes the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http" or not _LOG.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            level = logging.DEBUG if scope["path"] in _QUIET else logging.INFO
            elapsed = (time.perf_counter() - started) * 1000
            _LOG.log(
                level, "%s %s %s %.1f ms", scope["method"], shown_path(scope), status or "aborted", elapsed
            )


def shown_path(scope: Scope) -> str:
    """Path of a request as it was sent (so no control characters), cut, and the names in its query."""
    raw: bytes = scope.get("raw_path") or b""
    path = "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in raw[:500])
    pairs = scope["query_string"][:500].decode("ascii", "replace").split("&")
    names = sorted({pair.partition("=")[0] for pair in pairs if pair})
    return f"{path}?{'&'.join(name if name.isprintable() else '…' for name in names)}" if names else path
