"""An executor whose answers take long, such as one over a network: looked at and asked in threads."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from nemo_helix_server.executors import options
from nemo_helix_server.executors.background_lane import BackgroundLane
from nemo_helix_server.executors.base import Continues, Launch, RunObservation, StepExecutor
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.clock import Clock

_PLACES_REMEMBERED = 10_000
_LOOKS_MISSED = 6
"""So many looks at a place with an interval of its own may fail before its runs are unknown."""


class ObservedInBackground:
    """Another executor, of which the controller's thread never waits: it is asked in threads.

    `observe` answers from the newest look at once, and a look that is too old is none: the run is then
    unknown. `stop`, `kill` and requests are queued, carried out in their order for each run, and repeated
    until they succeed or the run is over. What has changed wakes each thread that waits for `descriptors`.
    Starts go on when `start` has returned. What only some executors have must answer at once.

    An executor of several places, such as hosts, is looked at and asked in threads of each: one that does not
    answer holds up no other. The other executor is then used by several threads at once.
    See `nemo_helix_server.executors.base.StepExecutor`.
    """

    def __init__(
        self,
        executor: StepExecutor,
        clock: Clock,
        *,
        interval: float = 2.0,
        stale_after: float = 30.0,
        interval_of: Callable[[str], float] | None = None,
        place_of: Callable[[StepRun], str] = lambda _run: "",
        threads: Executor | None = None,
    ) -> None:
        """``interval``: seconds between two looks; ``stale_after``: seconds for which a look counts.

        ``interval_of``: those between two looks at a place; where they are longer, a look counts for longer.
        ``place_of`` names the place of a run, always the same for one.
        ``threads`` carry out the starts; unset = those of each place.
        """
        self.inner = executor
        """The other executor."""
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._place_of = functools.lru_cache(_PLACES_REMEMBERED)(place_of)

        def make_lane(place: str) -> BackgroundLane:
            own = interval_of(place) if interval_of is not None else None
            return BackgroundLane(
                executor,
                clock,
                self._wake,
                self._look_soon,
                interval=interval if own is None else own,
                stale_after=stale_after if own is None else max(stale_after, _LOOKS_MISSED * own),
                threads=threads,
            )

        self._make_lane = make_lane
        self._lock = threading.Lock()
        self._lanes: dict[str, BackgroundLane] = {}
        self._warm = False

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol; a run that was not looked at yet is unknown until it was."""
        by_lane: dict[BackgroundLane, list[StepRun]] = {}
        for run in runs:
            by_lane.setdefault(self._lane(run), []).append(run)
        return {token: seen for lane, those in by_lane.items() for token, seen in lane.observe(those).items()}

    def look(self) -> None:
        """Ask the other executor once about all runs that are asked about and have not ended."""
        for lane in self._all_lanes():
            lane.look()

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol; returns at once, and what was asked of the run before is carried out first.

        Until the start is done the run is seen as one that waits. What it raised is raised by the next call,
        except for `AlreadyStartedError`: then the next look says what became of the run.
        """
        self._lane(run).start(run, launch)

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol; returns at once."""
        send = functools.partial(self.inner.request_pause, run, seq=seq, by=by, at=at)
        self._lane(run).control(run, send, seq)

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol; returns at once."""
        send = functools.partial(self.inner.withdraw_pause, run, seq=seq, by=by, at=at)
        self._lane(run).control(run, send, seq)

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """See the protocol; returns at once."""
        stop = functools.partial(self.inner.stop, run, grace_seconds=grace_seconds, stacks=stacks)
        self._lane(run).end(run, stop)

    def kill(self, run: StepRun) -> None:
        """See the protocol; returns at once."""
        self._lane(run).end(run, functools.partial(self.inner.kill, run))

    def end_chain(self, run: StepRun) -> None:
        """See `base.Continues`; returns at once."""
        if isinstance(self.inner, Continues):
            end = functools.partial(self.inner.end_chain, run)
            # wanted of a run that is over, of which nothing else is
            self._lane(run).put(f"{run.token} and its chain", "the end of its chain", end)

    def carry_out(self) -> bool:
        """Carry out one request that is due, in the caller's thread; whether there was one."""
        return any(lane.carry_out() for lane in self._all_lanes())

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol: as of the newest look; raises `ExecutorError` before the first."""
        return self._lane(run).last_request(run)

    def descriptors(self) -> tuple[int, ...]:
        """See `base.Wakes`; what the other one has wakes the look."""
        return (self._event,)

    def warm(self) -> None:
        """See `base.Warms`; from now on it is looked."""
        options.warm(self.inner)
        with self._lock:
            self._warm = True
        for lane in self._all_lanes():
            lane.warm()

    def close(self, timeout: float = 10.0) -> None:
        """See the protocol; what is under way may take so many seconds."""
        deadline = time.monotonic() + timeout
        lanes = self._all_lanes()
        for lane in lanes:
            lane.stop_work()
        ended = [lane.close(max(0.0, deadline - time.monotonic())) for lane in lanes]
        if all(ended):
            # while a look goes on it would write to whatever has the number next
            os.close(self._event)
        self.inner.close()

    def _lane(self, run: StepRun) -> BackgroundLane:
        place = self._place_of(run)
        with self._lock:
            lane = self._lanes.get(place)
            if lane is None:
                lane = self._lanes[place] = self._make_lane(place)
                if self._warm:
                    lane.warm()
        return lane

    def _all_lanes(self) -> tuple[BackgroundLane, ...]:
        with self._lock:
            return tuple(self._lanes.values())

    def _look_soon(self) -> None:
        for lane in self._all_lanes():
            lane.look_soon()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._event, 1)
