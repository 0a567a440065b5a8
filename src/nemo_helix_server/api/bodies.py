"""Bodies of requests: how large they may be, how long they may take, and which JSON is taken.

A body that is JSON is read whole, within bounds, and must be JSON that every reader understands alike. A body
that is a file is read as it comes, and must keep coming.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Message, Receive

from nemo_helix_server.errors import InvalidError, MalformedRequestError, ServerError
from nemo_runs import strict_json

PART_TIMEOUT = 30.0
"""Seconds that a part of a body may take to come."""
WHOLE_WITHIN = 60.0
"""Seconds in which a body that is JSON must have come whole."""
ENOUGH = 16 * 1024
"""Bytes of a file for which `PART_TIMEOUT` counts: one that comes more slowly is ended."""
LARGEST_BODY = 8 * 2**20
DEEPEST = 100
MOST_VALUES = 500_000
"""Values in one JSON body: each takes many times its text in memory."""
_SMALL = 64 * 1024
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?+(?:"|\Z)', re.DOTALL)
"""A text with its quotes. It matches from every quote on, so that looking for all takes linear time."""
_LARGEST_INTEGER = 2**63 - 1


class UnsupportedMediaError(ServerError):
    """The body is not JSON."""

    status = 415


class TooLargeError(ServerError):
    """The body is larger than anything the service takes."""

    status = 413


class TooSlowError(ServerError):
    """The body did not come."""

    status = 408


async def read_json(headers: Headers, receive: Receive) -> tuple[bytes, Any]:
    """A body and the JSON in it, `None` without a body; raises what `read` and `check_json` raise."""
    body = await read(headers, receive)
    if not body:
        return body, None
    check_media(headers.get("content-type"))
    return body, check_json(body) if len(body) <= _SMALL else await run_in_threadpool(check_json, body)


async def read(headers: Headers, receive: Receive, most: int = LARGEST_BODY) -> bytes:
    """The whole body; raises `TooLargeError` before it is in memory, and `TooSlowError`."""
    check_length(headers, most)
    body, left = bytearray(), WHOLE_WITHIN
    while True:
        message, took = await _next(receive, min(left, PART_TIMEOUT))
        left -= took
        if message is None or left <= 0:
            raise TooSlowError(
                f"the body must come whole within {WHOLE_WITHIN:g} seconds, without a stop of "
                f"{PART_TIMEOUT:g}; it did not"
            )
        if message["type"] == "http.disconnect":
            raise MalformedRequestError("the client went away before its request was whole")
        body += message.get("body", b"")
        if len(body) > most:
            raise TooLargeError(f"the body is larger than {most} bytes")
        if not message.get("more_body", False):
            return bytes(body)


async def _next(receive: Receive, seconds: float) -> tuple[Message | None, float]:
    """What comes next, `None` when it does not, and the seconds that it took."""
    clock = asyncio.get_running_loop().time
    asked = clock()
    try:
        async with asyncio.timeout(seconds):
            return await receive(), clock() - asked
    except TimeoutError:
        return None, clock() - asked


def check_length(headers: Headers, most: int = LARGEST_BODY) -> None:
    """Refuse an announced length that is not a number, or larger than ``most``."""
    declared = headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit():
        raise MalformedRequestError("the header Content-Length is not a number")
    if len(declared) > 15 or int(declared) > most:
        raise TooLargeError(f"the body has {declared[:20]} bytes; at most {most} are taken")


def paced(receive: Receive) -> Receive:
    """The same body, ended with `TooSlowError` when it does not keep coming; our own waits do not count."""
    left, came = PART_TIMEOUT, 0

    async def part() -> Message:
        nonlocal left, came
        message, took = await _next(receive, left)
        left -= took
        if message is None or left <= 0:
            raise TooSlowError(
                f"less than {ENOUGH} bytes of the file came within {PART_TIMEOUT:g} seconds; send it again"
            )
        came += len(message.get("body", b""))
        if came >= ENOUGH:
            left, came = PART_TIMEOUT, 0
        return message

    return part


def replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read, once more; then whatever comes."""
    pending = True

    async def once() -> Message:
        nonlocal pending
        if pending:
            pending = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return once


def check_media(content_type: str | None) -> None:
    """Refuse a body that does not say it is JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/[a-z0-9.+-]+\+json", kind):
        raise UnsupportedMediaError(
            f"the body is {kind[:100]!r}; it must be JSON, with the header Content-Type: application/json"
        )


def check_json(body: bytes) -> Any:
    """The JSON of a body, unless readers disagree about it, or no database can keep it."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        bare = _TEXT.sub(b"", body)
        if sum(map(bare.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise TooLargeError(f"the body holds more than {MOST_VALUES} values")
    try:
        value = strict_json.loads(body.decode())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MalformedRequestError(f"the body is not JSON: {error}") from None
    except ValueError as error:
        raise InvalidError(f"the body {error}") from None
    problem = next(_problems(value), None)
    if problem:
        raise InvalidError(f"the body {problem}")
    return value


def _problems(value: Any) -> Iterator[str]:
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEEPEST:
            yield f"is nested deeper than {DEEPEST} levels"
        elif isinstance(item, str) and "\0" in item:
            yield "holds a NUL character"
        elif isinstance(item, int) and item > _LARGEST_INTEGER:
            yield f"holds the whole number {item}; at most {_LARGEST_INTEGER} is taken"
        elif isinstance(item, dict):
            waiting.extend((part, depth + 1) for pair in item.items() for part in pair)
        elif isinstance(item, list):
            waiting.extend((part, depth + 1) for part in item)
