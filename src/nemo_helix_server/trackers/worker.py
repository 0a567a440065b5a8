"""A thread for each door: it asks that door's publisher about one job after the other.

A tracker that hangs holds up its own lane, and nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nemo_helix_server.errors import ServerError
from nemo_helix_server.trackers.errors import OffError, TrackerError, UnreachableError
from nemo_helix_server.trackers.publisher import PublisherProcess
from nemo_helix_server.trackers.sync import JobSnapshot, TrackerSync

_LOG = logging.getLogger(__name__)
_SHORTEST, _LONGEST = 1.0, 60.0
"""Seconds until a job, or the whole door, is tried again after it failed; doubled each time."""
_LONG = 8.0
"""After a wait of this length the publisher is started again, too."""
_IDLE = 60.0
"""Seconds after which a publisher without any open run is ended."""


@dataclass(slots=True)
class Backoff:
    """When to try again."""

    until: float = 0.0
    wait: float = 0.0

    def failed(self, now: float) -> None:
        """It went wrong again."""
        self.wait = min(_LONGEST, max(_SHORTEST, 2 * self.wait))
        self.until = now + self.wait

    def worked(self) -> None:
        """All is well."""
        self.wait = self.until = 0.0


Key = tuple[str, str]
"""Job and tracker."""


@dataclass(slots=True)
class TrackerWorker:
    """The jobs of one tracker endpoint."""

    name: str
    sync: TrackerSync
    prepare: Callable[[], PublisherProcess]
    """Makes the publisher, not started yet; raises `OffError`."""
    _due: dict[Key, None] = field(default_factory=dict)
    _backoff: dict[Key, Backoff] = field(default_factory=dict)
    _endpoint_backoff: Backoff = field(default_factory=Backoff)
    _publisher: PublisherProcess | None = None
    _used: float = 0.0
    _pending: threading.Condition = field(default_factory=threading.Condition)
    _stopping: bool = False
    _thread: threading.Thread | None = None

    def offer(self, key: Key) -> None:
        """There is something to publish about a job."""
        with self._pending:
            if self._ready(key):
                self._due[key] = None
                self._pending.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=f"tracker {self.name}", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Begin to end; does not wait."""
        with self._pending:
            self._stopping = True
            self._pending.notify()
        if self._publisher is not None:
            self._publisher.abandon()

    def publish(self, key: Key) -> None:
        """Publish what is due about one job, and remember when to try again if that fails."""
        snapshot = self.sync.look(*key)
        if snapshot is None:
            self._backoff.pop(key, None)
            self._release(key[0])
            return
        if not snapshot.due:
            self.sync.settle(snapshot)
            return
        now = time.monotonic()
        backoff = self._backoff.setdefault(key, Backoff())
        try:
            if self._publisher is None:
                self._publisher = self.prepare()
            self._used = now
            self.sync.publish(snapshot, self._publisher)
        except TrackerError as error:
            self._failed(snapshot, error, backoff)
            return
        self._backoff.pop(key, None)
        self._endpoint_backoff.worked()
        again = self.sync.look(*key)
        if again is not None and not again.due:
            self.sync.settle(again)

    def _failed(self, snapshot: JobSnapshot, error: TrackerError, backoff: Backoff) -> None:
        now = time.monotonic()
        backoff.failed(now)
        if isinstance(error, UnreachableError | OffError):
            self._endpoint_backoff.failed(now)
            self._publisher = None
        elif self._publisher is not None and not self._publisher.opened and backoff.wait >= _LONG:
            self._end()  # the next one reads the key again, which may have been wrong
        if self._stopping:
            return
        _LOG.warning(
            "nothing is published to %s about job %s: %s", snapshot.run.tracker, snapshot.job.name, error
        )
        self.sync.problem(snapshot, error)

    def _ready(self, key: Key) -> bool:
        known = self._backoff.get(key)
        now = time.monotonic()
        return now >= self._endpoint_backoff.until and (known is None or now >= known.until)

    def _loop(self) -> None:
        while True:
            with self._pending:
                self._pending.wait_for(lambda: bool(self._due) or self._stopping, timeout=_IDLE / 4)
                if self._stopping:
                    return
                key = next(iter(self._due), None)
                if key is not None:
                    del self._due[key]
            if key is None:
                if self._is_idle():
                    return
                continue
            try:
                if self._ready(key):
                    self.publish(key)
            except ServerError as error:
                _LOG.warning("job %s is published to its tracker later: %s", key[0], error)
            except Exception:  # noqa: BLE001 - the outermost edge of a thread: the next look tries again
                _LOG.exception("publishing job %s failed and is tried again", key[0])
                with self._pending:
                    self._backoff.setdefault(key, Backoff()).failed(time.monotonic())

    def _is_idle(self) -> bool:
        """End a publisher that nobody needs, and then the thread; one with an open run keeps it alive."""
        if time.monotonic() - self._used < _IDLE or (self._publisher and self._publisher.opened):
            return False
        self._end()
        with self._pending:
            if self._due:
                return False
            self._thread = None
            return True

    def _end(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _release(self, job_id: str) -> None:
        """The job is gone: nobody asks about its run any more."""
        if self._publisher is not None and job_id in self._publisher.opened:
            self._publisher.opened.discard(job_id)
            try:
                self._publisher.ask(op="release", job=job_id)
            except TrackerError as error:
                _LOG.warning("the run of a deleted job was not released in order: %s", error)
