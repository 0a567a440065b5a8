"""Connections that cost something and bring nothing: how many there may be, and how long they may be silent.

A client that opens a connection and never finishes its request would keep a descriptor forever; enough of
them, and nothing could be opened any more, by the controller neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_TIMEOUT = 30.0
"""Seconds that a request's first line and headers may take to come, from the connection on, and what is left
of a body once the request was answered."""
_MOST_FILES = 65_536
_KEPT = 768
"""Open files that are for the database, the folders of jobs and the processes, not for connections."""


def raise_file_limit() -> int:
    """Allow this process as many open files as it may have; how many connections there can be then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    limit = wanted if soft == resource.RLIM_INFINITY else soft
    return limit - _KEPT if limit > 2 * _KEPT else limit // 2


def protocol(most: int, timeout: float = REQUEST_TIMEOUT) -> type[asyncio.Protocol]:
    """What speaks HTTP on a connection, with at most so many connections at once."""

    class Limited(H11Protocol):
        """Ends a connection whose request does not come, and one too many at once.

        The rest of an unwanted body is read for a while, and dropped: a connection that is ended
        while its client still sends loses the answer that says why.
        """

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """See `asyncio.Protocol`."""
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
                return
            self._start()

        def connection_lost(self, exc: Exception | None) -> None:
            """See `asyncio.Protocol`."""
            self._stop()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """See `asyncio.Protocol`."""
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._stop()
            if self.cycle is None or self.cycle.response_complete:
                # a part of the next request; uvicorn has just given up its own timer
                self._start()

        def on_response_complete(self) -> None:
            """See `H11Protocol`."""
            super().on_response_complete()
            if self.conn.their_state is h11.SEND_BODY:
                self._start()

        def _start(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(timeout, self.transport.abort)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Limited
