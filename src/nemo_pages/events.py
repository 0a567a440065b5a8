"""Live pages: what changed, as server-sent events or, where a browser has too many open, as an answer.

A page names topics. Each topic has a version, a text that changes whenever something of the topic does. A
stream sends the versions of its topics at once and again after each change; the script of the page compares
them with those it knows and asks again for the parts that show a topic. So a stream that broke loses nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Versions = Callable[[Sequence[str]], Mapping[str, str]]
"""The present version of each topic; called in a thread. A topic that does not exist is left out."""

MOST_TOPICS = 20
LOOK_SECONDS: Final = 1.0
"""How often a stream looks at the versions."""
PING_SECONDS: Final = 10
"""How often a stream shows that it is there when nothing changes; scripts wait three times as long."""
RETRY_MILLISECONDS: Final = 3000


def event_routes(
    versions: Versions, *, ended: Callable[[], bool] = lambda: False, look_seconds: float = LOOK_SECONDS
) -> list[Route]:
    """``/pages/events`` (a stream) and ``/pages/versions`` (one answer); ``topic`` can be repeated.

    Streams end soon after ``ended`` says that the server stops, which would wait for them.
    """

    async def present(topics: Sequence[str]) -> Mapping[str, str]:
        return await asyncio.to_thread(versions, topics)

    async def changes(topics: Sequence[str]) -> AsyncIterator[ServerSentEvent]:
        known: Mapping[str, str] | None = None
        quiet = 0.0
        while not ended():
            found = await present(topics)
            if found != known or quiet >= PING_SECONDS:
                known, quiet = found, 0.0
                yield ServerSentEvent(json.dumps(found), event="versions", retry=RETRY_MILLISECONDS)
            await asyncio.sleep(look_seconds)
            quiet += look_seconds

    async def stream(request: Request) -> Response:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return EventSourceResponse(changes(_topics(request)), headers=headers)

    async def once(request: Request) -> Response:
        return JSONResponse(dict(await present(_topics(request))))

    return [
        Route("/pages/events", stream, methods=["GET"], name="events"),
        Route("/pages/versions", once, methods=["GET"], name="versions"),
    ]


def _topics(request: Request) -> list[str]:
    return list(dict.fromkeys(request.query_params.getlist("topic")))[:MOST_TOPICS]
