"""Signals to a training: handlers that set a flag and do nothing else."""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

_HANDLED = (signal.SIGTERM, signal.SIGUSR1)
_PATIENCE = 2.0
"""Seconds that a forked child waits to learn whether SIGTERM was meant for the whole training."""
_LOOK = 0.01


class Flags:
    """SIGTERM asks for a pause and stays asked; SIGUSR1 is a nudge to look at the control file.

    A process that was forked from the training has the same handlers: in it SIGUSR1 does nothing, and SIGTERM
    ends it unless the training itself got one too. So a signal to every process of a step does not take its
    data loaders away in the middle of the last step, and a pool can still end its workers.
    """

    def __init__(self) -> None:
        self.terminated = False
        self.nudged = False
        self._pid = os.getpid()
        self._shared = mmap.mmap(-1, 1)
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Handle the signals from here on; outside the main thread, where Python cannot, nothing happens."""
        if threading.current_thread() is threading.main_thread() and not self._before:
            self._before = {number: signal.signal(number, self._note) for number in _HANDLED}

    def restore(self) -> None:
        """Put back the handlers from before."""
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before = {}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            self._in_a_child(number)
        elif number == signal.SIGTERM:
            self.terminated = True
            self._shared[0] = 1
        else:
            self.nudged = True

    def _in_a_child(self, number: int) -> None:
        if number != signal.SIGTERM:
            return
        patience = time.monotonic() + _PATIENCE
        while os.getppid() == self._pid and time.monotonic() < patience:
            if self._shared[0]:
                return
            time.sleep(_LOOK)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
