"""Requests about runs that go over a network: carried out by threads, in order for each run.

A request that fails is repeated until it succeeds or nobody wants it any more. Nothing of this is written
down: a service that ends with requests in its queue makes them again, since what it wants of a run is in its
store, and it looks whether the run has it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nemo_runs.clock import Clock, GrowingPause

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds until what failed is tried again; twice as many each time."""
_LOOK = 1.0
_THREADS = 4


@dataclass(slots=True)
class _Request:
    kind: str
    carry_out: Callable[[], None]
    wanted: bool = True
    """Whether it is tried again when it fails."""


@dataclass(slots=True)
class _Waiting:
    """The requests about one run, the next one first."""

    requests: list[_Request] = field(default_factory=list)
    retry: GrowingPause = field(default_factory=lambda: GrowingPause(_FIRST_PAUSE, _LONGEST_PAUSE))
    problem: str = ""
    """Why the last one failed, which is logged when it is new."""
    busy: bool = False


class RequestQueue:
    """Carries out requests; a request of a kind takes the place of an earlier one that has not been begun."""

    def __init__(self, clock: Clock, done: Callable[[], None]) -> None:
        """``done`` is called after each request that was carried out."""
        self._clock = clock
        self._done = done
        self._changed = threading.Condition()
        self._waiting: dict[str, _Waiting] = {}
        self._threads: list[threading.Thread] = []
        self._ended = False

    def put(self, token: str, kind: str, carry_out: Callable[[], None]) -> None:
        """Add a request about a run; returns at once."""
        with self._changed:
            waiting = self._waiting.setdefault(token, _Waiting())
            begun = waiting.requests[:1] if waiting.busy else []
            rest = [one for one in waiting.requests[len(begun) :] if one.kind != kind]
            waiting.requests = [*begun, *rest, _Request(kind, carry_out)]
            self._changed.notify()

    def waits(self, token: str) -> bool:
        """Whether anything about a run has not been carried out yet."""
        with self._changed:
            return token in self._waiting

    def forget(self, token: str) -> None:
        """Nothing is wanted of a run any more; what has begun is finished, and not tried again."""
        with self._changed:
            waiting = self._waiting.get(token)
            if waiting is not None and waiting.busy:
                waiting.requests = waiting.requests[:1]
                waiting.requests[0].wanted = False
            else:
                self._waiting.pop(token, None)

    def work(self) -> bool:
        """Carry out one request that is due, in the caller's thread; whether there was one."""
        with self._changed:
            now = self._clock.monotonic()
            due = [
                (one.retry.due, token)
                for token, one in self._waiting.items()
                if not one.busy and one.retry.is_due(now)
            ]
            if not due:
                return False
            token = min(due)[1]
            waiting = self._waiting[token]
            waiting.busy = True
            request = waiting.requests[0]
        problem = _problem_of(request)
        if problem and problem != waiting.problem:
            _LOG.warning("%s: %s is tried again: %s", token, request.kind, problem)
        with self._changed:
            waiting.busy = False
            waiting.problem = problem
            if not problem or not request.wanted:
                waiting.requests.pop(0)
                waiting.retry = GrowingPause(_FIRST_PAUSE, _LONGEST_PAUSE)
            else:
                waiting.retry.fail(self._clock.monotonic())
            if not waiting.requests:
                del self._waiting[token]
            self._changed.notify()
        self._done()
        return True

    def start(self) -> None:
        """From now on threads do the work; fine when they do already."""
        with self._changed:
            if self._threads or self._ended:
                return
            self._threads = [
                threading.Thread(target=self._run, name=f"requests-{number}", daemon=True)
                for number in range(_THREADS)
            ]
        for thread in self._threads:
            thread.start()

    def stop_work(self) -> None:
        """Begin nothing more; returns at once."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self, timeout: float) -> None:
        """Begin nothing more; all that is under way may take so many seconds."""
        deadline = time.monotonic() + timeout
        self.stop_work()
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while not self._ended:
            if not self.work():
                with self._changed:
                    if not self._ended:
                        self._changed.wait(_LOOK)


def _problem_of(request: _Request) -> str:
    """Carry it out; why that failed, empty when it did not."""
    try:
        request.carry_out()
    except Exception as error:  # noqa: BLE001 - the edge of a thread: it is tried again until it is not wanted any more
        return f"{type(error).__name__}: {error}"
    return ""
