"""An executor whose answers take long, such as one over a network: looked at and asked in threads."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import logging
import os
import select
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from nemo_helix_server.executors import options
from nemo_helix_server.executors.base import (
    Continues,
    ExecutorError,
    Launch,
    RunObservation,
    RunState,
    StepExecutor,
)
from nemo_helix_server.executors.request_queue import RequestQueue
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.clock import Clock

_LOG = logging.getLogger(__name__)
_STARTS = 8
_START_SECONDS = 5.0
"""How long the caller of a start waits for it; it may go on for as long as large files take."""
_OVER = frozenset({RunState.EXITED, RunState.LOST})


@dataclass(slots=True)
class _Known:
    """What is known of a run that is asked about."""

    run: StepRun
    asked_at: float
    seen: RunObservation | None = None
    seen_at: float = 0.0
    changed: int = 0
    """The number of the first look that may say something of it: it was started or stopped before that."""
    request: int | None = None
    """The number of the newest request that it is known to have been given."""
    request_known: bool = False
    """Whether the other executor was asked for that."""


class ObservedInBackground:
    """Another executor, of which the controller's thread never waits: it is asked in threads.

    `observe` answers from the newest look at once, and a look that is too old is none: the run is then
    unknown. `stop`, `kill` and requests are queued, carried out in their order for each run, and repeated
    until they succeed or the run is over. What has changed wakes each thread that waits for `descriptors`.
    `start` waits for the other executor for some seconds only; what only some executors have must answer at
    once. See `nemo_helix_server.executors.base.StepExecutor`.
    """

    def __init__(
        self, executor: StepExecutor, clock: Clock, *, interval: float = 2.0, stale_after: float = 30.0
    ) -> None:
        """``interval``: seconds between two looks; ``stale_after``: seconds for which a look counts."""
        self.inner = executor
        """The other executor."""
        self._clock = clock
        self._interval = interval
        self._stale_after = stale_after
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._looks = 0
        self._problem = ""
        self._ended = False
        self._thread: threading.Thread | None = None
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._due = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._threads = ThreadPoolExecutor(_STARTS, thread_name_prefix="starts")
        self._starts: dict[str, Future[None]] = {}
        self._requests = RequestQueue(clock, done=self._look_soon)

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol; a run that was not looked at yet is unknown until it was."""
        now = self._clock.monotonic()
        answers = {}
        new = False
        with self._lock:
            for run in runs:
                known = self._known.get(run.token)
                if known is None:
                    known = self._known[run.token] = _Known(run, now)
                    new = True
                known.asked_at = now
                answers[run.token] = self._answer(known, now)
        if new:
            self._look_soon()
        return answers

    def look(self) -> None:
        """Ask the other executor once about all runs that are asked about and have not ended."""
        now = self._clock.monotonic()
        with self._lock:
            self._looks += 1
            number = self._looks
            self._known = {
                token: known
                for token, known in self._known.items()
                if now - known.asked_at <= self._stale_after
            }
            wanted = [known.run for known in self._known.values() if not _is_over(known)]
        if not wanted:
            return
        try:
            seen = self.inner.observe(wanted)
            requests = self._newest_requests(wanted, seen)
        except Exception as error:  # noqa: BLE001 - it is asked again; until then its runs become unknown
            problem = f"{type(error).__name__}: {error}"
            if problem != self._problem:
                _LOG.warning("an executor cannot say what its runs do: %s", problem)
            self._problem = problem
            return
        self._problem = ""
        with self._lock:
            changed = [self._note(token, one, requests, number, now) for token, one in seen.items()]
        for token, one in seen.items():
            if one.state in _OVER:
                self._requests.forget(token)
        if any(changed):
            os.eventfd_write(self._event, 1)

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol; what was asked of the run before is carried out first.

        One that takes long, since it brings large files, goes on when this has returned: until it is done the
        run is seen as one that waits, and what it raised is raised by the next call.
        """
        if self._requests.waits(run.token):
            raise ExecutorError(f"{run.token}: an earlier request about it is still on its way")
        with self._lock:
            start = self._starts.get(run.token)
            if start is None or (start.done() and start.exception() is None):
                start = self._starts[run.token] = self._threads.submit(self._start, run, launch)
        concurrent.futures.wait([start], timeout=_START_SECONDS)
        if start.done():
            with self._lock:
                self._starts.pop(run.token, None)
            start.result()

    def _start(self, run: StepRun, launch: Launch) -> None:
        try:
            self.inner.start(run, launch)
        finally:
            self._outdate(run)

    def find(self, run: StepRun) -> RunObservation | None:
        """See the protocol: asked now, and so it may take long."""
        return self.inner.find(run)

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol; returns at once."""
        self._control(run, functools.partial(self.inner.request_pause, run, seq=seq, by=by, at=at), seq)

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol; returns at once."""
        self._control(run, functools.partial(self.inner.withdraw_pause, run, seq=seq, by=by, at=at), seq)

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """See the protocol; returns at once."""
        stop = functools.partial(self.inner.stop, run, grace_seconds=grace_seconds, stacks=stacks)
        self._requests.put(run.token, "its end", stop)

    def kill(self, run: StepRun) -> None:
        """See the protocol; returns at once."""
        self._requests.put(run.token, "its end", functools.partial(self.inner.kill, run))

    def end_chain(self, run: StepRun) -> None:
        """See `base.Continues`; returns at once."""
        if isinstance(self.inner, Continues):
            end = functools.partial(self.inner.end_chain, run)
            # wanted of a run that is over, of which nothing else is
            self._requests.put(f"{run.token} and its chain", "the end of its chain", end)

    def carry_out(self) -> bool:
        """Carry out one request that is due, in the caller's thread; whether there was one."""
        return self._requests.work()

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol: as of the newest look; raises `ExecutorError` before the first."""
        with self._lock:
            known = self._known.get(run.token)
            if known is None or not known.request_known:
                raise ExecutorError(f"{run.token} has not been looked at yet")
            return known.request

    def descriptors(self) -> tuple[int, ...]:
        """See `base.Wakes`; what the other one has wakes the look."""
        return (self._event,)

    def warm(self) -> None:
        """See `base.Warms`; from now on it is looked."""
        options.warm(self.inner)
        self._requests.start()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="observation", daemon=True)
            self._thread.start()

    def close(self, timeout: float = 10.0) -> None:
        """See the protocol; what is under way may take so many seconds."""
        self._ended = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._look_soon()
        self._requests.close(timeout)
        if self._thread is not None:
            self._thread.join(timeout)
        if self._thread is None or not self._thread.is_alive():
            # while a look goes on it would write to whatever has the number next
            os.close(self._event)
            os.close(self._due)
        self.inner.close()

    def _run(self) -> None:
        theirs = options.descriptors(self.inner)
        poll = select.poll()
        for descriptor in (self._due, *theirs):
            poll.register(descriptor, select.POLLIN)
        while not self._ended:
            options.drain((self._due, *theirs))
            self.look()
            poll.poll(self._interval * 1000)

    def _look_soon(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._due, 1)

    def _control(self, run: StepRun, send: functools.partial[None], seq: int) -> None:
        def carry_out() -> None:
            send()
            with self._lock:
                known = self._known.get(run.token)
                if known is not None:
                    known.request = max(seq, known.request or 0)

        self._requests.put(run.token, "a request to it", carry_out)

    def _newest_requests(
        self, wanted: Iterable[StepRun], seen: dict[str, RunObservation]
    ) -> dict[str, int | None]:
        """Asked for once, and once more of a run that is over: how it ended is judged by that."""
        with self._lock:
            asked = {token for token, known in self._known.items() if known.request_known}
        return {
            run.token: self.inner.last_request(run)
            for run in wanted
            if run.token in seen and (run.token not in asked or seen[run.token].state in _OVER)
        }

    def _answer(self, known: _Known, now: float) -> RunObservation:
        start = self._starts.get(known.run.token)
        if start is not None and not start.done():
            return RunObservation(RunState.QUEUED, reason="its files are brought to where it runs")
        if start is not None and start.exception() is not None:
            return RunObservation(RunState.ABSENT)  # the next start raises the reason
        if known.seen is None:
            why = f": {self._problem}" if self._problem else ""
            return RunObservation(RunState.UNKNOWN, reason=f"it has not been looked at yet{why}")
        age = now - known.seen_at
        if age <= self._stale_after or _is_over(known):
            return known.seen
        why = f": {self._problem}" if self._problem else ""
        return RunObservation(
            RunState.UNKNOWN,
            started_at=known.seen.started_at,
            reason=f"the last look at it is {age:.0f} seconds old{why}",
        )

    def _note(
        self, token: str, seen: RunObservation, requests: dict[str, int | None], number: int, at: float
    ) -> bool:
        """Keep what a look has found; whether that is something else than before."""
        known = self._known.get(token)
        if known is None or number < known.changed:
            return False
        if token in requests:
            known.request = max(filter(None, (known.request, requests[token])), default=None)
            known.request_known = True
        before, known.seen, known.seen_at = known.seen, seen, at
        return before != seen

    def _outdate(self, run: StepRun) -> None:
        """What a look found that had begun before now says nothing of the run any more."""
        with self._lock:
            known = self._known.get(run.token)
            if known is not None:
                known.seen, known.changed = None, self._looks + 1
        self._look_soon()


def _is_over(known: _Known) -> bool:
    return known.seen is not None and known.seen.state in _OVER
