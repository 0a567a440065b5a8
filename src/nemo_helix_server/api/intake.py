"""What every request goes through before any route: its size, its text and its origin.

Paths and queries must be UTF-8 without NUL; a body must be JSON that every reader understands alike. On
loopback the service has no passwords, so a page in somebody's browser must not reach it: only names of
loopback are accepted as its host, and nothing is changed on behalf of another site.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import orjson
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nemo_helix_server.errors import BadRequestError, ForbiddenError, InvalidError, ServerError

PATIENCE = 30.0
"""Seconds that a part of a body may take to come."""
LARGEST_BODY = 8 * 2**20
DEEPEST = 100
LONGEST_TARGET = 16 * 1024
_STREAMED = ("/apis/files/",)
"""Below these, bodies are not JSON and are read as they come."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_LARGEST_INTEGER = 2**63 - 1


class UnsupportedMediaError(ServerError):
    """The body is not JSON."""

    status = 415


class TooLargeError(ServerError):
    """The body is larger than anything the service takes."""

    status = 413


class TargetTooLongError(ServerError):
    """Path and query are longer than anything the service takes."""

    status = 414


class TooSlowError(ServerError):
    """The body did not come."""

    status = 408


class MisdirectedError(ServerError):
    """The request was meant for another host."""

    status = 421


class Intake:
    """The ASGI layer that lets only well-formed requests through."""

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            check_target(scope)
            check_origin(scope["method"], Headers(scope=scope), loopback_only=self._loopback_only)
            inner = await self._checked_body(scope, receive)
        except ServerError as error:
            await answer(send, error)
            return
        await self._app(scope, inner, send)

    async def _checked_body(self, scope: Scope, receive: Receive) -> Receive:
        if scope["method"] in _SAFE or scope["path"].startswith(_STREAMED):
            return receive
        headers = Headers(scope=scope)
        body = await read_body(headers, receive)
        if body:
            check_media(headers.get("content-type"))
            check_json(body)
        return _replay(body, receive)


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
            raise BadRequestError(f"the {what} is not UTF-8") from None
        if "\0" in text:
            raise BadRequestError(f"the {what} holds a NUL character")


def check_origin(method: str, headers: Headers, *, loopback_only: bool) -> None:
    """Refuse what a browser sends on behalf of another site, and on loopback every foreign host name."""
    host = headers.get("host", "")
    if loopback_only and not is_loopback(host_name(host)):
        raise MisdirectedError(
            f"this service answers as localhost only, not as {host[:100]!r}; --host makes it use other names"
        )
    if method in _SAFE:
        return
    origin = headers.get("origin")
    foreign = origin is not None and urllib.parse.urlsplit(_printable(origin)).netloc != host
    if foreign or headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise ForbiddenError(
            "a browser sent this on behalf of another site; changes are taken from clients only"
        )


def _printable(text: str) -> str:
    return re.sub(r"[^\x21-\x5a\x5c\x5e-\x7e]", "", text)


def host_name(host: str) -> str:
    """The name or address in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if re.fullmatch(r".*:[0-9]*", host) else host


def is_loopback(name: str) -> bool:
    """Whether a host name or address is this machine, seen from itself."""
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def read_body(headers: Headers, receive: Receive) -> bytes:
    """The whole body; raises `TooLargeError` before it is in memory."""
    declared = headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit():
        raise BadRequestError("the header Content-Length is not a number")
    if len(declared) > 15 or int(declared) > LARGEST_BODY:
        raise TooLargeError(f"the body has {declared[:20]} bytes; at most {LARGEST_BODY} are taken")
    body = bytearray()
    while True:
        try:
            message = await asyncio.wait_for(receive(), PATIENCE)
        except TimeoutError:
            raise TooSlowError(f"nothing of the request's body came for {PATIENCE:g} seconds") from None
        if message["type"] == "http.disconnect":
            raise BadRequestError("the client went away before its request was whole")
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            raise TooLargeError(f"the body is larger than {LARGEST_BODY} bytes")
        if not message.get("more_body", False):
            return bytes(body)


def check_media(content_type: str | None) -> None:
    """Refuse a body that does not say it is JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/[a-z0-9.+-]+\+json", kind):
        raise UnsupportedMediaError(
            f"the body is {kind[:100]!r}; it must be JSON, with the header Content-Type: application/json"
        )


def check_json(body: bytes) -> None:
    """Refuse JSON that readers disagree about, or that no database can keep."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    problem = next(_problems(value), None)
    if problem:
        raise InvalidError(f"the body {problem}")
    if _LONG_NUMBER.search(body) and not _fits(_with_exact_integers(body)):
        raise InvalidError("the body holds a whole number of more than 64 bits")


def _problems(value: Any) -> Iterator[str]:
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEEPEST:
            yield f"is nested deeper than {DEEPEST} levels"
        elif isinstance(item, str) and "\0" in item:
            yield "holds a NUL character"
        elif isinstance(item, dict):
            waiting.extend((part, depth + 1) for pair in item.items() for part in pair)
        elif isinstance(item, list):
            waiting.extend((part, depth + 1) for part in item)


def _with_exact_integers(body: bytes) -> Any:
    return json.loads(body)  # orjson turns integers of more than 64 bits into floats


def _fits(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, int) and not -_LARGEST_INTEGER - 1 <= item <= _LARGEST_INTEGER:
            return False
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return True


def _replay(body: bytes, receive: Receive) -> Receive:
    pending = True

    async def once() -> Message:
        nonlocal pending
        if pending:
            pending = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return once
