"""Signals that come while a training is still being loaded: noted, so that they do not end it."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


class EarlySignals:
    """SIGTERM is kept for the session; SIGUSR1 means to look soon, which is done anyway."""

    def __init__(self) -> None:
        self._installed = self._terminated = False

    def install(self) -> None:
        """Handle the signals from here on."""
        if not self._installed:
            self._installed = True
            signal.signal(signal.SIGTERM, self._note)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._terminated = True

    def hand_over(self) -> None:
        """Give the session, whose handlers are in place, what it has missed."""
        if self._terminated:
            os.kill(os.getpid(), signal.SIGTERM)


SIGNALS = EarlySignals()
if "nemo_engines.run" in sys.orig_argv:
    # this is the first module of a training: what comes after it takes a while
    SIGNALS.install()
