"""One place that is looked at and asked in threads of its own, such as one host of a cluster.

See `nemo_helix_server.executors.background`, which has one for each place of an executor.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from nemo_helix_server.executors import options
from nemo_helix_server.executors.base import (
    AlreadyStartedError,
    ExecutorError,
    Launch,
    RunObservation,
    RunState,
    StepExecutor,
)
from nemo_helix_server.executors.request_queue import RequestQueue
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.clock import Clock, GrowingPause, utc_minute
from nemo_runs.processes.daemon_threads import DaemonThreads

_LOG = logging.getLogger(__name__)
_STARTS = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a start that failed is tried again; twice as many each time."""
_LOOKS_LATE, _LEAST_LATE = 3, 15.0
"""After so many intervals, and so many seconds, without a look it is said since when a run was not seen."""
_OVER = frozenset({RunState.EXITED, RunState.LOST})


@dataclass(slots=True)
class _FailedStart:
    error: Exception
    retry: GrowingPause


@dataclass(slots=True)
class _Known:
    """What is known of a run that is asked about."""

    run: StepRun
    asked_at: float
    seen: RunObservation | None = None
    seen_at: float = 0.0
    """When the newest look began that had an answer, by the monotonic clock."""
    known_at: float | None = None
    """When the newest look began that said what it does, in seconds since the epoch."""
    changed: int = 0
    """The number of the first look that may say something of it: it was started or stopped before that."""
    request: int | None = None
    """The number of the newest request that it is known to have been given."""
    request_known: bool = False
    """Whether the other executor was asked for that."""


class BackgroundLane:
    """What is known of the runs of one place, and what is still to be asked of them; safe for all threads."""

    def __init__(
        self,
        executor: StepExecutor,
        clock: Clock,
        changed: Callable[[], None],
        woken: Callable[[], None],
        *,
        interval: float,
        stale_after: float,
        threads: Executor | None = None,
    ) -> None:
        """``changed`` is called when a run is seen otherwise than before, or its start has failed.

        ``woken`` is called when the executor itself says that runs may have changed. ``threads`` carry out
        the starts; unset = its own.
        """
        self._inner = executor
        self._clock = clock
        self._notify_changed = changed
        self._woken = woken
        self._interval = interval
        self._stale_after = stale_after
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._looks = 0
        self._problem = ""
        self._ended = False
        self._thread: threading.Thread | None = None
        self._due = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._threads = threads or DaemonThreads(_STARTS, "starts")
        self._starting: set[str] = set()
        self._failed: dict[str, Exception] = {}
        """Why a start failed, until the next one raises it."""
        self._tried: dict[str, _FailedStart] = {}
        """The starts that failed, and are tried again."""
        self._requests = RequestQueue(clock, done=self.look_soon)

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
            self.look_soon()
        return answers

    def look(self) -> None:
        """Ask the other executor once about all runs that are asked about and have not ended."""
        now, date = self._clock.monotonic(), self._clock.seconds()
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
            seen = self._inner.observe(wanted)
            requests = self._newest_requests(wanted, seen)
        except Exception as error:  # noqa: BLE001 - it is asked again; until then its runs become unknown
            problem = f"{type(error).__name__}: {error}"
            if problem != self._problem:
                _LOG.warning("an executor cannot say what its runs do: %s", problem)
            self._problem = problem
            return
        self._problem = ""
        with self._lock:
            changed = [self._note(token, one, requests, number, (now, date)) for token, one in seen.items()]
        for token, one in seen.items():
            if one.state in _OVER:
                self._requests.forget(token)
        if any(changed):
            self._notify_changed()

    def start(self, run: StepRun, launch: Launch) -> None:
        """Begin a start, or raise what the last one failed with; what was asked before is done first.

        One that has failed is tried again after growing pauses, and raises the same until then.
        """
        if self._requests.waits(run.token):
            raise ExecutorError(f"{run.token}: an earlier request about it is still on its way")
        with self._lock:
            failed = self._failed.pop(run.token, None)
            if failed is None:
                if run.token in self._starting:
                    return
                tried = self._tried.get(run.token)
                if tried is not None and not tried.retry.is_due(self._clock.monotonic()):
                    failed = tried.error
                else:
                    self._starting.add(run.token)
        if failed is not None:
            raise failed
        start = self._threads.submit(self._start, run, launch)
        if start.done():
            with self._lock:
                self._failed.pop(run.token, None)
            start.result()

    def _start(self, run: StepRun, launch: Launch) -> None:
        failed: Exception | None = None
        try:
            self._inner.start(run, launch)
        except Exception as error:
            failed = error
            raise
        finally:
            with self._lock:
                self._starting.discard(run.token)
                if failed is None or isinstance(failed, AlreadyStartedError):
                    self._tried.pop(run.token, None)
                else:
                    self._failed[run.token] = failed
                    self._note_failed(run.token, failed)
            self._outdate(run)
            if failed is not None:
                self._notify_changed()

    def _note_failed(self, token: str, error: Exception) -> None:
        tried = self._tried.get(token)
        retry = tried.retry if tried else GrowingPause(_FIRST_PAUSE, _LONGEST_PAUSE)
        retry.fail(self._clock.monotonic())
        self._tried[token] = _FailedStart(error, retry)

    def end(self, run: StepRun, end: Callable[[], None]) -> None:
        """Have a run ended; whatever became of its start, from now on a look says what it does."""
        with self._lock:
            self._failed.pop(run.token, None)
            self._tried.pop(run.token, None)
        self._requests.put(run.token, "its end", end)

    def put(self, key: str, kind: str, carry_out: Callable[[], None]) -> None:
        """Have something else carried out; see `RequestQueue.put`."""
        self._requests.put(key, kind, carry_out)

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

    def warm(self) -> None:
        """From now on it is looked, and what was asked for is carried out; fine when that is so already."""
        self._requests.start()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="observation", daemon=True)
                self._thread.start()

    def stop_work(self) -> None:
        """Begin nothing more; returns at once."""
        self._ended = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._requests.stop_work()
        self.look_soon()

    def close(self, timeout: float) -> bool:
        """Wait so many seconds for what is under way; whether no look is under way any more."""
        deadline = time.monotonic() + timeout
        self.stop_work()
        self._requests.close(timeout)
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
            if self._thread.is_alive():
                return False
        # while a look goes on it would write to whatever has the number next
        os.close(self._due)
        return True

    def _run(self) -> None:
        theirs = options.descriptors(self._inner)
        poll = select.poll()
        for descriptor in (self._due, *theirs):
            poll.register(descriptor, select.POLLIN)
        while not self._ended:
            options.drain((self._due, *theirs))
            self.look()
            if {descriptor for descriptor, _ in poll.poll(self._interval * 1000)} & set(theirs):
                self._woken()

    def look_soon(self) -> None:
        """Look as soon as the look that is under way is over; returns at once."""
        with contextlib.suppress(OSError):
            os.eventfd_write(self._due, 1)

    def control(self, run: StepRun, send: Callable[[], None], seq: int) -> None:
        """Have a request made, and remember its number once it was."""

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
            run.token: self._inner.last_request(run)
            for run in wanted
            if run.token in seen and (run.token not in asked or seen[run.token].state in _OVER)
        }

    def _answer(self, known: _Known, now: float) -> RunObservation:
        token = known.run.token
        if token in self._starting and not _is_over(known):
            tried = self._tried.get(token)
            again = f"its start is tried again: {tried.error}" if tried is not None else ""
            return RunObservation(RunState.QUEUED, reason=again or "its files are brought to where it runs")
        if token in self._failed:
            return RunObservation(RunState.ABSENT)  # the next start raises the reason
        if known.seen is None:
            why = f": {self._problem}" if self._problem else ""
            return RunObservation(RunState.UNKNOWN, reason=f"it has not been looked at yet{why}")
        age = now - known.seen_at
        if _is_over(known):
            return known.seen
        if age <= self._stale_after:
            return replace(known.seen, unseen=self._unseen(known, known.seen, age))
        why = f": {self._problem}" if self._problem else ""
        return RunObservation(
            RunState.UNKNOWN,
            started_at=known.seen.started_at,
            # the same words from look to look: they are noted
            reason=f"it was seen last more than {self._stale_after:g} seconds ago{why}",
            unseen=self._unseen(known, known.seen, age),
        )

    def _unseen(self, known: _Known, seen: RunObservation, age: float) -> str:
        """Since when it was not seen, and why; empty while the newest look is a good one."""
        late = age > max(_LOOKS_LATE * self._interval, _LEAST_LATE)
        silent = seen.reason if seen.state is RunState.UNKNOWN else ""
        why = seen.unseen or silent
        if late:
            why = self._problem or why or "the look at it takes long"
        if not why or known.known_at is None:
            return why if seen.unseen else ""
        return f"not seen since {utc_minute(known.known_at)}: {why}"

    def _note(
        self,
        token: str,
        seen: RunObservation,
        requests: dict[str, int | None],
        number: int,
        at: tuple[float, float],
    ) -> bool:
        """Keep what a look has found; whether that is something else than before.

        ``at``: when it began, by the monotonic clock, and in seconds since the epoch.
        """
        known = self._known.get(token)
        if known is None or number < known.changed:
            return False
        if token in requests:
            known.request = max(filter(None, (known.request, requests[token])), default=None)
            known.request_known = True
        before, known.seen, known.seen_at = known.seen, seen, at[0]
        if seen.state is not RunState.UNKNOWN and not seen.unseen:
            known.known_at = at[1]
        return before != seen

    def _outdate(self, run: StepRun) -> None:
        """What a look found that had begun before now says nothing of the run any more."""
        with self._lock:
            known = self._known.get(run.token)
            if known is not None:
                known.seen, known.changed = None, self._looks + 1
        self.look_soon()


def _is_over(known: _Known) -> bool:
    return known.seen is not None and known.seen.state in _OVER
