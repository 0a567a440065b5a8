"""Bodies of HTTP answers, read up to a bound: some are endless, some small ones unpack to a lot.

JSON in them is read as loosely as servers write it.
"""

from __future__ import annotations

import json
import math
from typing import Any

import aiohttp
import orjson

LONGEST_ANSWER = 16 << 20
"""Bytes of a model's answer; hundreds of answers may be in memory at once."""
LONGEST_LISTING = 4 << 20
"""Bytes of a list of models."""
LONGEST_ERROR = 64 << 10
"""Bytes that are read of an answer that only says what went wrong."""
_INTEGER_DIGITS = 18


async def read_body(answer: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """The whole body, or ``None`` when it is longer than ``limit``; the connection is closed then."""
    body = await read_start(answer, limit + 1)
    return body if len(body) <= limit else None


async def read_start(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body's first ``limit`` bytes, or all of it; the rest is not read, and the connection closed."""
    length = answer.content_length
    if length is not None and length <= limit and "content-encoding" not in answer.headers:
        return await answer.read()
    body = bytearray()
    async for block in answer.content.iter_any():
        body += block
        if len(body) >= limit:
            answer.close()
            break
    return bytes(body[:limit])


def parsed_json(content: bytes) -> Any:
    """Parsed JSON; raises ``ValueError``.

    Servers written in Python also send ``NaN`` and boundless numbers (read as null here) and halves of
    surrogate pairs (read as ``?``), which a strict reader refuses and no result row could hold.
    """
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        text = content.decode("utf-8-sig", errors="replace")
    value, rest = parsed_start(text)
    if rest.strip():
        raise ValueError("something follows the JSON value")
    return value


def parsed_start(text: str) -> tuple[Any, str]:
    """The JSON value that a text begins with, read as loosely, and what follows it; raises `ValueError`."""
    text = text.lstrip()
    try:
        loose, end = _LOOSE.raw_decode(text)
        return orjson.loads(json.dumps(loose, ensure_ascii=False).encode(errors="replace")), text[end:]
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _bounded(text: str) -> int | float | None:
    return int(text) if len(text) <= _INTEGER_DIGITS else _finite(text)


_LOOSE = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_bounded)
