"""Bodies of HTTP answers, read up to a bound: some are endless, some small ones unpack to a lot."""

from __future__ import annotations

import aiohttp

LONGEST_ANSWER = 16 << 20
"""Bytes of a model's answer; hundreds of answers may be in memory at once."""
LONGEST_LISTING = 4 << 20
"""Bytes of a list of models."""
LONGEST_ERROR = 64 << 10
"""Bytes that are read of an answer that only says what went wrong."""


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
