"""Signals that come while a training is still being loaded: noted, so that they do not end it."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

END_SIGNAL, ANNOUNCES = "NEMO_JOB_END_SIGNAL", "USR1"
"""As `nemo_trainer.contract.names` has them: importing that takes longer than a signal may wait."""


class EarlySignals:
    """SIGTERM is kept for the session; SIGUSR1 means to look soon, which is done anyway.

    Where SIGUSR1 announces the end of the allocation it is kept as well.
    """

    def __init__(self) -> None:
        self._installed = False
        self._kept: list[int] = []

    def install(self) -> None:
        """Handle the signals from here on."""
        if not self._installed:
            self._installed = True
            signal.signal(signal.SIGTERM, self._note)
            announces = os.environ.get(END_SIGNAL) == ANNOUNCES
            signal.signal(signal.SIGUSR1, self._note if announces else signal.SIG_IGN)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._kept.append(number)

    def hand_over(self) -> None:
        """Give the session, whose handlers are in place, what it has missed."""
        for number in self._kept:
            os.kill(os.getpid(), number)


SIGNALS = EarlySignals()
if "nemo_engines.run" in sys.orig_argv:
    # this is the first module of a training: what comes after it takes a while
    SIGNALS.install()
