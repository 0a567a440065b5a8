"""An executor whose answers take long, such as one that is asked over a network, looked at in a thread."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from nemo_helix_server.executors.base import (
    Admitted,
    CapacityRequest,
    Launch,
    RunObservation,
    RunState,
    StepExecutor,
    WaitingForCapacity,
)
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.clock import Clock

_LOG = logging.getLogger(__name__)
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


class ObservedInBackground:
    """Another executor, observed in a thread of its own; `observe` answers from the newest look at once.

    A look that is too old is none: the run is then unknown. What a look has changed wakes each thread that
    waits for `descriptors`. Everything else goes to the other executor as it is. See
    `nemo_helix_server.executors.base.StepExecutor`.
    """

    def __init__(
        self, executor: StepExecutor, clock: Clock, *, interval: float = 2.0, stale_after: float = 30.0
    ) -> None:
        """``interval``: seconds between two looks; ``stale_after``: seconds for which a look counts."""
        self._executor = executor
        self._clock = clock
        self._interval = interval
        self._stale_after = stale_after
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._looks = 0
        self._problem = ""
        self._due = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol; a run that was not looked at yet is unknown until it was."""
        now = self._clock.monotonic()
        answers = {}
        with self._lock:
            for run in runs:
                known = self._known.get(run.token)
                if known is None:
                    known = self._known[run.token] = _Known(run, now)
                    self._due.set()
                known.asked_at = now
                answers[run.token] = self._answer(known, now)
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
            seen = self._executor.observe(wanted)
        except Exception as error:  # noqa: BLE001 - it is asked again; until then its runs become unknown
            problem = f"{type(error).__name__}: {error}"
            if problem != self._problem:
                _LOG.warning("an executor cannot say what its runs do: %s", problem)
            self._problem = problem
            return
        self._problem = ""
        with self._lock:
            changed = [self._note(token, one, number, now) for token, one in seen.items()]
        if any(changed):
            os.eventfd_write(self._event, 1)

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol."""
        try:
            self._executor.start(run, launch)
        finally:
            self._outdate(run)

    def stop(self, run: StepRun, *, grace_seconds: float) -> None:
        """See the protocol."""
        try:
            self._executor.stop(run, grace_seconds=grace_seconds)
        finally:
            self._due.set()

    def kill(self, run: StepRun) -> None:
        """See the protocol."""
        try:
            self._executor.kill(run)
        finally:
            self._due.set()

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See the protocol."""
        return self._executor.admit(request)

    def require_possible(self, request: CapacityRequest) -> None:
        """See the protocol."""
        self._executor.require_possible(request)

    def base_environment(self, run: StepRun) -> Mapping[str, str]:
        """See the protocol."""
        return self._executor.base_environment(run)

    def has_program(self, run: StepRun, argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:
        """See the protocol."""
        return self._executor.has_program(run, argv, environment)

    def release(self, run: StepRun) -> None:
        """See the protocol."""
        self._executor.release(run)

    def find(self, run: StepRun) -> RunObservation | None:
        """See the protocol: asked now, and so it may take long."""
        return self._executor.find(run)

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._executor.request_pause(run, seq=seq, by=by, at=at)

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._executor.withdraw_pause(run, seq=seq, by=by, at=at)

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol."""
        return self._executor.last_request(run)

    def last_messages(self, run: StepRun) -> list[str]:
        """See the protocol."""
        return self._executor.last_messages(run)

    def log_mark(self, run: StepRun) -> Hashable:
        """See the protocol."""
        return self._executor.log_mark(run)

    def environment_digest(
        self, run: StepRun, argv: tuple[str, ...], environment: Mapping[str, str]
    ) -> str | None:
        """See the protocol."""
        return self._executor.environment_digest(run, argv, environment)

    def descriptors(self) -> tuple[int, ...]:
        """See the protocol."""
        return (self._event, *self._executor.descriptors())

    def drain(self) -> None:
        """See the protocol."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
        if self._executor.descriptors():
            self._executor.drain()
            self._due.set()

    def warm(self) -> None:
        """See the protocol; from now on it is looked."""
        self._executor.warm()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="observation", daemon=True)
            self._thread.start()

    def close(self, patience: float = 10.0) -> None:
        """See the protocol; a look that is under way may take so many seconds."""
        self._ended = True
        self._due.set()
        if self._thread is not None:
            self._thread.join(patience)
        if self._thread is None or not self._thread.is_alive():
            os.close(self._event)  # while a look goes on it would write to whatever has the number next
        self._executor.close()

    def _run(self) -> None:
        while not self._ended:
            self._due.clear()
            self.look()
            self._due.wait(self._interval)

    def _answer(self, known: _Known, now: float) -> RunObservation:
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

    def _note(self, token: str, seen: RunObservation, number: int, at: float) -> bool:
        """Keep what a look has found; whether that is something else than before."""
        known = self._known.get(token)
        if known is None or number < known.changed:
            return False
        before, known.seen, known.seen_at = known.seen, seen, at
        return before != seen

    def _outdate(self, run: StepRun) -> None:
        """Whatever a look found that had begun before now says nothing of the run any more."""
        with self._lock:
            known = self._known.get(run.token)
            if known is not None:
                known.seen, known.changed = None, self._looks + 1
        self._due.set()


def _is_over(known: _Known) -> bool:
    return known.seen is not None and known.seen.state in _OVER
