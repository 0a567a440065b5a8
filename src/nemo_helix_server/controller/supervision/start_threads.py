"""Starts that are under way: each is known by its token, and none holds up a pass of the controller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field

from nemo_runs.processes.daemon_threads import DaemonThreads

_AT_ONCE = 8
"""So many runs of one executor are started at once."""
_WAIT = 0.25
"""Seconds that a pass waits for the starts that it began: nearly all are done by then."""


@dataclass(slots=True)
class StartThreads:
    """Makes starts, those of each executor in threads of their own; used by the controller's thread."""

    wake: Callable[[], None] = lambda: None
    """Called after a start that no pass has waited for."""
    make: Callable[[str], Executor] = lambda name: DaemonThreads(_AT_ONCE, f"starts of {name}")
    _by_executor: dict[str, Executor] = field(default_factory=dict)
    _under_way: dict[str, Future[None]] = field(default_factory=dict)
    """By token."""
    _begun: list[Future[None]] = field(default_factory=list)
    """Those of this pass."""
    _unseen: frozenset[str] = frozenset()
    """What was under way when runs were looked at: that look does not count for them."""
    _stopped: bool = False

    def begin_pass(self) -> None:
        """Runs are about to be looked at."""
        self._unseen = frozenset(self._under_way)

    def begin(self, executor: str, token: str, start: Callable[[], None]) -> None:
        """Have a start made, unless it is under way, or was so when this pass looked at runs."""
        if self._stopped or token in self._under_way or token in self._unseen:
            return
        if executor not in self._by_executor:
            self._by_executor[executor] = self.make(executor)
        made = self._under_way[token] = self._by_executor[executor].submit(start)
        self._begun.append(made)
        made.add_done_callback(lambda _: self._under_way.pop(token, None))

    def settle(self) -> None:
        """Wait a moment for those of this pass; what takes longer goes on, and wakes the controller."""
        if self._begun:
            _, late = wait_for(self._begun, _WAIT)
            self._begun = []
            for start in late:
                start.add_done_callback(lambda _: self.wake())

    def stop(self, timeout: float) -> None:
        """Begin none any more, and wait at most so many seconds for those under way."""
        self._stopped = True
        left = [start for start in list(self._under_way.values()) if not start.cancel()]
        wait_for(left, timeout)
