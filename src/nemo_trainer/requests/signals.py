"""Signals to a training: handlers that set a flag and do nothing else."""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from nemo_trainer.contract import STACKS_SIGNAL

_HANDLED = (signal.SIGTERM, signal.SIGUSR1)
_ORDER_TIMEOUT = 2.0
"""Seconds that a forked child waits to learn whether SIGTERM was meant for the whole training."""
_LOOK = 0.01
_STANDARD_ERROR = 2


class Flags:
    """SIGTERM asks for a pause and stays asked; SIGUSR1 is a nudge to look at the control file.

    A signal that announces the end of the allocation is also noted as that. On `STACKS_SIGNAL` the stacks of
    all threads go to standard error, also while the interpreter waits for something that never comes.

    A process that was forked from the training has the same handlers: in it SIGUSR1 does nothing, and SIGTERM
    ends it unless the training itself got one too. So a signal to every process of a step does not take its
    data loaders away in the middle of the last step, and a pool can still end its workers.
    """

    def __init__(self, end_signal: signal.Signals | None = None) -> None:
        """``end_signal`` announces the end of the allocation."""
        self.terminated = False
        self.nudged = False
        self.ending = False
        """Whether the end of the allocation was announced."""
        self._end_signal = end_signal
        self._pid = os.getpid()
        self._shared = mmap.mmap(-1, 1)
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Handle the signals from here on; outside the main thread, where Python cannot, nothing happens."""
        if threading.current_thread() is threading.main_thread() and not self._before:
            self._before = {number: signal.signal(number, self._note) for number in _HANDLED}
            faulthandler.register(STACKS_SIGNAL, file=_STANDARD_ERROR, all_threads=True)

    def restore(self) -> None:
        """Put back the handlers from before."""
        if self._before:
            faulthandler.unregister(STACKS_SIGNAL)
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before = {}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            self._in_a_child(number)
            return
        self.ending = self.ending or number == self._end_signal
        if number == signal.SIGTERM:
            self.terminated = True
            self._shared[0] = 1
        else:
            self.nudged = True

    def _in_a_child(self, number: int) -> None:
        if number != signal.SIGTERM:
            return
        deadline = time.monotonic() + _ORDER_TIMEOUT
        while os.getppid() == self._pid and time.monotonic() < deadline:
            if self._shared[0]:
                return
            time.sleep(_LOOK)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
