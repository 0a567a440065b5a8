"""What a run says on stderr, whatever shows progress there; a stderr that is gone never ends a run."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import IO

from nemo_gym.rollouts.collect.progress import Bar, Display, ProgressLines
from nemo_runs import streams


class Console:
    """Plain lines, or lines above a bar once there is one."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._display: Display | None = None

    def report(self, message: str) -> None:
        """Print one line."""
        message = streams.harmless(message)
        if self._display is not None:
            self._display.report(message)
        else:
            self._write(message)

    def show_progress(self, expected: int) -> Display:
        """Begin to show progress: a bar on a terminal, sparse lines elsewhere."""
        if self._stream.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console

            self._display = Bar(Console(file=self._stream), expected)
        else:
            self._display = ProgressLines(self._write)
        return self._display

    def end_progress(self) -> None:
        """Plain lines from now on."""
        self._display = None

    def _write(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(message, file=self._stream, flush=True)
