"""What every request goes through before any route: the text and length of its target, and its origin.

Paths and queries must be UTF-8 without NUL. On loopback the service has no passwords, so a page in somebody's
browser must not reach it: only names of loopback are accepted as its host, and nothing is changed on behalf
of another site. Who asks, and the body, are the matter of `guard`.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Collection

import orjson
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_helix_server.errors import ForbiddenError, MalformedRequestError, ServerError
from nemo_runs.addresses import is_loopback

LONGEST_TARGET = 16 * 1024
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class TargetTooLongError(ServerError):
    """Path and query are longer than anything the service takes."""

    status = 414


class MisdirectedError(ServerError):
    """The request was meant for another host."""

    status = 421


class RequestValidation:
    """The ASGI layer that lets only well-formed requests through."""

    def __init__(self, app: ASGIApp, *, loopback_only: bool, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._loopback_only = loopback_only
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            check_target(scope)
            check_origin(scope["method"], headers, loopback_only=self._loopback_only, hosts=self._hosts)
            check_framing(headers)
        except ServerError as error:
            await answer(send, error)
            return
        await self._app(scope, receive, send)


async def answer(send: Send, error: ServerError) -> None:
    """Send an error without any framework."""
    body = orjson.dumps({"detail": error.detail})
    headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def check_target(scope: Scope) -> None:
    """Refuse a path or query that is not UTF-8 text without NUL."""
    query: bytes = scope["query_string"]
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    if len(raw) + len(query) > LONGEST_TARGET:
        raise TargetTooLongError(f"path and query are longer than {LONGEST_TARGET} bytes")
    for what, part in (("path", raw), ("query", query)):
        try:
            text = urllib.parse.unquote_to_bytes(part).decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedRequestError(f"the {what} is not UTF-8") from None
        if "\0" in text:
            raise MalformedRequestError(f"the {what} holds a NUL character")


def check_origin(method: str, headers: Headers, *, loopback_only: bool, hosts: Collection[str] = ()) -> None:
    """Refuse what a browser sends on behalf of another site, and on loopback every foreign host name.

    ``hosts`` are those of proxies that show the service: names, with a port where a browser's address has it.
    """
    host = headers.get("host", "")
    if loopback_only and host not in hosts and not is_loopback(host_name(host)):
        raise MisdirectedError(
            f"this service answers as localhost only, not as {host[:100]!r}; --host makes it use other names"
        )
    if method in _SAFE:
        return
    origin = headers.get("origin")
    ours = {host, *hosts}
    foreign = origin is not None and urllib.parse.urlsplit(_printable(origin)).netloc not in ours
    if foreign or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise ForbiddenError(
            "a browser sent this on behalf of another site; changes are taken from clients only"
        )


def check_framing(headers: Headers) -> None:
    """Refuse a body with two lengths: a proxy before the service may have believed the other one."""
    if "transfer-encoding" in headers and "content-length" in headers:
        raise MalformedRequestError("a request has Content-Length or Transfer-Encoding, not both")


def _printable(text: str) -> str:
    return re.sub(r"[^\x21-\x5a\x5c\x5e-\x7e]", "", text)


def host_name(host: str) -> str:
    """The name or address in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if re.fullmatch(r".*:[0-9]*", host) else host
