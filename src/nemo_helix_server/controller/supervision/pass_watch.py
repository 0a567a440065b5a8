"""Whether the passes of the controller end: one that does not looks after no job any more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_LOG = logging.getLogger(__name__)
LONGEST_PASS = 30.0
"""Seconds after which a pass that has not ended is a problem."""
_LOOK_EVERY = 5.0


@dataclass(slots=True)
class PassWatch:
    """Knows when the pass that is under way began; `start` has what is wrong logged, once a pass."""

    monotonic: Callable[[], float]
    waits_for: Callable[[], Sequence[str]]
    """Which calls take too long, a sentence each."""
    _began: float | None = None
    _logged: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """A pass begins."""
        self._began, self._logged = self.monotonic(), False

    def end(self) -> None:
        """It has ended."""
        self._began = None

    def problem(self) -> str | None:
        """What is wrong: a sentence."""
        began = self._began
        if began is None or (took := self.monotonic() - began) <= LONGEST_PASS:
            return None
        waits = "; ".join(self.waits_for())
        since = f"no job has been looked after for {took:.0f} seconds: the controller waits"
        return f"{since}; {waits}" if waits else since

    def look(self) -> None:
        """Log what is wrong, unless that was done in this pass."""
        if not self._logged and (problem := self.problem()) is not None:
            self._logged = True
            _LOG.error("%s", problem)

    def start(self) -> None:
        """Look now and then, in a thread."""
        threading.Thread(target=self._run, name="pass watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more; returns at once."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_EVERY):
            self.look()
