"""Live events: one broadcaster reads what changed once, and many watchers get it (server-sent events).

Everything here runs in the server's event loop; only reading the store happens in a thread, once a change and
not once a watcher. A watcher that takes too little is dropped: it comes back with the id of the last event it
saw, and gets what it missed from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

LARGEST_BACKLOG = 1000
"""Events that wait for one watcher; with more it is dropped."""
PAGE = 500
POLL_SECONDS = 0.1
"""The store is looked at this often while anybody watches, for changes that nobody announced."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One thing that happened."""

    seq: int
    """Grows with each event of the store; where a watcher goes on from."""
    workspace: str
    job_id: str
    transition: str
    """The transition, as JSON."""
    job: str | None = None
    """The job as it is now, as JSON; with the newest of several events about one job."""


class Feed(Protocol):
    """Where events come from; called in threads."""

    def newest(self) -> int:
        """The number of the newest event there is."""
        ...

    def since(self, seq: int, limit: int) -> Sequence[StreamEvent]:
        """Events after a number, oldest first, at most ``limit``."""
        ...


class Subscription:
    """What one watcher is to get."""

    def __init__(self, wants: Callable[[StreamEvent], bool]) -> None:
        self._wants = wants
        self._waiting: deque[StreamEvent] = deque()
        self._changed = asyncio.Event()
        self.ended = False
        """No event will come any more: the service stops, or the watcher was too slow."""

    def offer(self, event: StreamEvent) -> None:
        """Keep an event for the watcher, if it wants it."""
        if self.ended or not self._wants(event):
            return
        if len(self._waiting) >= LARGEST_BACKLOG:
            self.end()
            return
        self._waiting.append(event)
        self._changed.set()

    def end(self) -> None:
        """Send the watcher away, with nothing more."""
        self._waiting.clear()
        self.ended = True
        self._changed.set()

    async def next(self, seconds: float) -> StreamEvent | None:
        """The next event; `None` when there is none within ``seconds``, or at the end."""
        if not self._waiting and not self.ended:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        return self._waiting.popleft() if self._waiting else None


class Broadcaster:
    """Reads each event once and hands it to everybody who watches."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._watchers: set[Subscription] = set()
        self._wake = asyncio.Event()
        self._position = 0
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def watchers(self) -> int:
        """How many watch."""
        return len(self._watchers)

    @property
    def closed(self) -> bool:
        """Whether nobody can watch any more, because the service stops."""
        return self._closed

    def notify(self) -> None:
        """Say that something changed; from any thread, at any time."""
        loop = self._loop
        if loop is not None and self._watchers:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        """End all watches, and let nobody watch any more; in the event loop."""
        self._closed = True
        for watcher in self._watchers:
            watcher.end()
        self._wake.set()

    async def newest(self) -> int:
        """The number of the newest event there is: where a watch from now on begins."""
        return await asyncio.to_thread(self._feed.newest)

    async def run(self) -> None:
        """Hand out events until `close`."""
        self._loop = asyncio.get_running_loop()
        while not self._closed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_SECONDS if self._watchers else None)
            self._wake.clear()
            if self._watchers:
                await self._hand_out()

    async def _hand_out(self) -> None:
        while True:
            events = await asyncio.to_thread(self._feed.since, self._position, PAGE)
            for event in events:
                self._position = max(self._position, event.seq)
                for watcher in self._watchers:
                    watcher.offer(event)
            if len(events) < PAGE:
                return

    async def watch(
        self, wants: Callable[[StreamEvent], bool], after: int | None, heartbeat: float = 15.0
    ) -> AsyncIterator[StreamEvent | None]:
        """Events that ``wants`` accepts, from ``after`` (default: from now) on.

        `None` is a sign of life, given after ``heartbeat`` seconds without an event.
        """
        newest = await self.newest()
        if not self._watchers:
            self._position = newest
        watcher = Subscription(wants)
        if self._closed:
            return
        self._watchers.add(watcher)
        self._wake.set()
        try:
            last = newest if after is None else min(after, newest)
            async for event in self._missed(wants, last, newest):
                last = event.seq
                yield event
            last = max(last, newest)
            while not watcher.ended:
                event_or_none = await watcher.next(heartbeat)
                if event_or_none is None:
                    if not watcher.ended:
                        yield None
                elif event_or_none.seq > last:
                    last = event_or_none.seq
                    yield event_or_none
        finally:
            self._watchers.discard(watcher)

    async def _missed(
        self, wants: Callable[[StreamEvent], bool], after: int, until: int
    ) -> AsyncIterator[StreamEvent]:
        while after < until and not self._closed:
            events = await asyncio.to_thread(self._feed.since, after, PAGE)
            for event in events:
                if event.seq <= until and wants(event):
                    yield event
            if not events:
                return
            after = events[-1].seq
