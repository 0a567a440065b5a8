"""Routes of live events (server-sent events): changes of one job or of a workspace, and log lines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import Header, Query
from fastapi.concurrency import run_in_threadpool
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from nemo_helix_plugin.jobs import events
from nemo_helix_plugin.jobs.names import ALL
from nemo_helix_server.api.access import READS, PathName, Service
from nemo_helix_server.api.feed import job_data
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.parts import ServiceParts
from nemo_helix_server.api.problems import answers
from nemo_helix_server.api.routes.jobs import JOBS
from nemo_helix_server.api.streams import StreamEvent
from nemo_helix_server.errors import MalformedRequestError, UnknownNameError
from nemo_helix_server.logs import pages
from nemo_helix_server.logs.pages import JobLogFollower

router = make_router(tags=["events"])

HEARTBEAT_SECONDS = 15
SLOWEST_SEND_SECONDS = 20.0
"""A client that takes nothing for so long is hung up on."""
_LOG_SECONDS = 0.25
"""How often a job's log is looked at while it is followed,"""
_LOG_SECONDS_EACH = 0.02
"""and how much less often with each stream that is open, so that many cannot slow everything else."""

LastEventId = Annotated[
    str | None, Header(max_length=1100, description="The id of the last event that was seen.")
]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `job`, `transition` and `log`, each with JSON data, as long as it is open.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class EventResponse(EventSourceResponse):
    """An answer that ends quietly when its client does not take it."""

    def __init__(self, frames: AsyncIterator[ServerSentEvent]) -> None:
        super().__init__(frames, ping=HEARTBEAT_SECONDS, send_timeout=SLOWEST_SEND_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        with contextlib.suppress(SendTimeoutError):
            await super().__call__(scope, receive, send)


@router.get(
    JOBS + "/{job}/events",
    response_class=EventSourceResponse,
    responses={**answers(404, 422), **_STREAM},
    dependencies=READS,
)
async def watch_job(
    workspace: PathName,
    job: PathName,
    service: Service,
    logs: Annotated[bool, Query(description="Log lines too.")] = False,
    page_cursor: Annotated[
        str | None,
        Query(max_length=1000, description="Follow the log from here on; otherwise from its start."),
    ] = None,
    tail: Annotated[
        int | None, Query(ge=0, le=10_000, description="Follow the log from so many lines before its end.")
    ] = None,
    last_event_id: LastEventId = None,
) -> EventResponse:
    """What happens to a job: first the job as it is, then each change, and log lines if asked for."""
    after, cursor = _position(last_event_id)
    if after is None:
        after = await service.broadcaster.newest()  # before the job is read: no change is between the two
    found = await run_in_threadpool(service.jobs.get, workspace, job)
    log = None
    if logs:
        follower = service.logs.follow(found["workspace"], found["id"], cursor or page_cursor, tail)
        if follower.cursor is not None:
            await run_in_threadpool(follower.check)
        log = _LogFrames(follower, found["name"], after)
    return EventResponse(_job_frames(service, found, after, log))


@router.get(
    "/apis/jobs/v2/workspaces/{workspace}/events",
    response_class=EventSourceResponse,
    responses={**answers(404, 422), **_STREAM},
    dependencies=READS,
)
async def watch_workspace(
    workspace: PathName, service: Service, last_event_id: LastEventId = None
) -> EventResponse:
    """What happens to the jobs of a workspace, from now on or from an event on; `-` is all of them."""
    after, _ = _position(last_event_id)

    def wanted(event: StreamEvent) -> bool:
        return workspace in {ALL, event.workspace}

    return EventResponse(_frames(service, wanted, after))


def _position(last_event_id: str | None) -> tuple[int | None, str | None]:
    """The sequence number, and the log's cursor, in an event's id."""
    if last_event_id is None or not last_event_id.strip():
        return None, None
    number, _, cursor = last_event_id.partition("~")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise MalformedRequestError("the header Last-Event-ID is not the id of an event of this service")
    return int(number), cursor or None


async def _frames(service: ServiceParts, wanted: Any, after: int | None) -> AsyncIterator[ServerSentEvent]:
    async for event in service.broadcaster.watch(wanted, after):
        for frame in _of_event(event) if event else ():
            yield frame


async def _job_frames(
    service: ServiceParts, document: dict[str, Any], after: int | None, log: _LogFrames | None
) -> AsyncIterator[ServerSentEvent]:
    job_id = document["id"]
    yield ServerSentEvent(job_data(document), event=events.KIND_JOB)
    heartbeat = float(HEARTBEAT_SECONDS)
    if log:
        heartbeat = max(_LOG_SECONDS, _LOG_SECONDS_EACH * service.broadcaster.watchers)
    async for event in service.broadcaster.watch(lambda event: event.job_id == job_id, after, heartbeat):
        if log is not None:
            # lines first: what was written before a change is seen before it
            async for frame in log.new(event.seq if event else None):
                yield frame
        for frame in _of_event(event, log.cursor if log else None) if event else ():
            yield frame


def _of_event(event: StreamEvent, cursor: str | None = None) -> list[ServerSentEvent]:
    identity = f"{event.seq}~{cursor}" if cursor else str(event.seq)
    frames = [ServerSentEvent(event.transition, event=events.KIND_TRANSITION, id=identity)]
    if event.job is not None:
        frames.append(ServerSentEvent(event.job, event=events.KIND_JOB))
    return frames


class _LogFrames:
    """Lines of a job's log that a watcher has not seen yet, as events."""

    def __init__(self, follower: JobLogFollower, job: str, after: int) -> None:
        self._follower, self._job, self._seq = follower, job, after

    @property
    def cursor(self) -> str | None:
        """Behind the last line that was sent."""
        return self._follower.cursor

    async def new(self, seq: int | None) -> AsyncIterator[ServerSentEvent]:
        """Lines since the last call; ``seq`` is the event that the watcher has come to."""
        self._seq = max(self._seq, (seq or 1) - 1)
        again = seq is not None
        while again or self._follower.grew():
            try:
                lines = await asyncio.to_thread(self._follower.new, again=again)
            except UnknownNameError:
                return  # the job has been removed
            for line in lines:
                data = orjson.dumps(pages.shown(line, self._job)).decode()
                # only a reader that has the last line of a page has all of it
                identity = f"{self._seq}~{self.cursor}" if line is lines[-1] else None
                yield ServerSentEvent(data, event=events.KIND_LOG, id=identity)
            if not lines:
                return
            again = False
