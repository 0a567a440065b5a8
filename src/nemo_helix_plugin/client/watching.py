"""Driving the plan of a watch: calls are made, waits are cut short by server-sent events if any come."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from nemo_helix_plugin.client import errors, streams
from nemo_helix_plugin.client.calls import jobs
from nemo_helix_plugin.client.retries import RetryPolicy
from nemo_helix_plugin.client.session import AsyncSession, ClientSession
from nemo_helix_plugin.client.watch import Wait, WatchCall, WatchOptions, follow, is_transient
from nemo_helix_plugin.jobs import watch_types

RECONNECT_AFTER = 10.0
GATHERING = 0.1
"""Seconds that changes are gathered before they are acted on."""


def watch(
    session: ClientSession, name: str, workspace: str | None, options: WatchOptions
) -> Iterator[watch_types.JobWatchEvent]:
    """Follow a job to its end."""
    plan = follow(name, workspace, options, session.options.runtime.now)
    once = ClientSession(session.http, replace(session.options, retry=RetryPolicy.none()))
    changes = _ChangeStream(once, name, workspace, logs=options.include_logs)
    step = next(plan)
    with contextlib.closing(changes), contextlib.suppress(StopIteration):
        while True:
            if isinstance(step, WatchCall):
                try:
                    answer = step.call.sync(once if step.patient else session, step.call.request)
                except errors.NemoClientError as error:
                    step = plan.throw(error)
                else:
                    changes.start()
                    step = plan.send(answer.data())
            elif isinstance(step, Wait):
                changes.wait(step)
                step = plan.send(None)
            else:
                yield step
                step = plan.send(None)


class _ChangeStream:
    """A thread that listens to the job's events, so that a wait ends when something happens."""

    def __init__(self, session: ClientSession, name: str, workspace: str | None, *, logs: bool) -> None:
        self._session = session
        self._call = jobs.stream_events(name=name, workspace=workspace, logs=logs, tail=0)
        self._stream: streams.EventStream | None = None
        self._thread: threading.Thread | None = None
        self._came = threading.Event()
        self._closed = threading.Event()
        self._connected = False

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, name="nemo-watch", daemon=True)
            self._thread.start()

    def wait(self, wait: Wait) -> None:
        """Let the time pass; a change cuts it short, unless the service was just failing."""
        if wait.failed:
            self._closed.wait(wait.seconds)
        elif self._came.wait(wait.longest if self._connected else wait.seconds):
            self._closed.wait(min(GATHERING, wait.seconds))
        self._came.clear()

    def close(self) -> None:
        self._closed.set()
        if self._stream is not None:
            self._stream.hang_up()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                self._stream = self._call.sync(self._session, self._call.request)
                for _ in self._stream:
                    self._connected = True
                    self._came.set()
                    if self._closed.is_set():
                        return
            except (errors.NemoClientError, RuntimeError) as error:
                if not is_transient(error):
                    return  # no such route, or our own client was closed: polling is enough
            finally:
                self._connected = False
                self._came.set()
            self._closed.wait(RECONNECT_AFTER)


async def watch_async(
    session: AsyncSession, name: str, workspace: str | None, options: WatchOptions
) -> AsyncIterator[watch_types.JobWatchEvent]:
    """Follow a job to its end, with ``async for``."""
    plan = follow(name, workspace, options, session.options.runtime.now)
    once = AsyncSession(session.http, replace(session.options, retry=RetryPolicy.none()))
    changes = _AsyncChangeStream(once, name, workspace, logs=options.include_logs)
    step = next(plan)
    try:
        with contextlib.suppress(StopIteration):
            while True:
                if isinstance(step, WatchCall):
                    try:
                        answer = await step.call.asynchronous(
                            once if step.patient else session, step.call.request
                        )
                    except errors.NemoClientError as error:
                        step = plan.throw(error)
                    else:
                        changes.start()
                        step = plan.send(answer.data())
                elif isinstance(step, Wait):
                    await changes.wait(step)
                    step = plan.send(None)
                else:
                    yield step
                    step = plan.send(None)
    finally:
        await changes.close()


class _AsyncChangeStream:
    """The same as a task of the event loop."""

    def __init__(self, session: AsyncSession, name: str, workspace: str | None, *, logs: bool) -> None:
        self._session = session
        self._call = jobs.stream_events(name=name, workspace=workspace, logs=logs, tail=0)
        self._task: asyncio.Task[None] | None = None
        self._came = asyncio.Event()
        self._connected = False

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._listen())

    async def wait(self, wait: Wait) -> None:
        """Let the time pass; a change cuts it short, unless the service was just failing."""
        if wait.failed:
            await asyncio.sleep(wait.seconds)
        else:
            longest = wait.longest if self._connected else wait.seconds
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), longest)
                await asyncio.sleep(min(GATHERING, wait.seconds))
        self._came.clear()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self) -> None:
        while True:
            try:
                async for _ in await self._call.asynchronous(self._session, self._call.request):
                    self._connected = True
                    self._came.set()
            except (errors.NemoClientError, RuntimeError) as error:
                if not is_transient(error):
                    return  # no such route, or our own client was closed: polling is enough
            finally:
                self._connected = False
                self._came.set()
            await asyncio.sleep(RECONNECT_AFTER)
