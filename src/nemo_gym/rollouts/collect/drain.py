"""Who asked this collector to stop, and how far that has gone.

A *drain file* is the truth and a signal only a nudge: the job that runs the collector writes the file (its
text says who asked) and then signals. SIGTERM, SIGUSR1 and SIGHUP (a terminal that is closed; ignored where
it was ignored before, as under nohup) drain; the first SIGINT drains, the second drops what is in flight, the
third leaves at once. Before there is anything to drain, SIGINT is an interrupt and the others raise
`StoppedEarly`. Light imports only: `Drain.install` is called before heavy ones.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

DRAIN_FILE_VARIABLE = "NEMO_GYM_DRAIN_FILE"
AHEAD_OF_LIMIT = "walltime"
"""What the drain file says when the job was asked ahead of its time limit."""
POLL_SECONDS = 0.5
"""How often the drain file is looked for."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


class StopReason(StrEnum):
    """Why no further rollout is started."""

    INTERRUPT = "interrupt"
    """Ctrl-C."""
    SIGNAL = "signal"
    """SIGTERM, SIGUSR1 or SIGHUP."""
    FILE = "drain file"
    BUDGET = "dispatch budget"
    """``dispatch_budget_s`` is spent."""
    ENDPOINT = "endpoint"
    """The endpoint failed again and again without one success."""
    REFUSED = "refused"
    """The endpoint refused different requests with the same client error, and answered none."""


SERVER_STOPS = frozenset({StopReason.ENDPOINT, StopReason.REFUSED})
"""Stops that nobody requested."""


class StoppedEarly(BaseException):
    """SIGTERM, SIGUSR1, SIGHUP or the drain file came before there was anything to drain."""


class Drain:
    """The request to stop. The first reason stays, except that a person's request outranks a failing
    endpoint.
    """

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        signals: Sequence[signal.Signals] = _SIGNALS,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        """``signals`` are those that `install` takes over; ``leave`` is called at the third interrupt."""
        self.reason: StopReason | None = None
        self.asked_by = ""
        """Who requested it: a signal's name, or the text of the drain file."""
        self.at_once = False
        """Drop what is in flight as well."""
        self.sigterm_received = False
        """SIGTERM came, which is followed by SIGKILL soon."""
        path = environ.get(DRAIN_FILE_VARIABLE)
        self._file = Path(path) if path else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None
        self._interrupts = 0
        self._signals = signals
        self._leave = leave
        self._previous: dict[signal.Signals, object] = {}

    def install(self) -> None:
        """Take over the signals (main thread only; elsewhere only the drain file counts)."""
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue
                self._previous[number] = signal.signal(number, self._on_signal)

    def restore(self) -> None:
        """Give the signals back to their earlier handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal returned
        self._previous.clear()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on a signal asks this loop, which runs or is about to, to drain instead of raising."""
        import asyncio

        self._event = asyncio.Event()
        self._loop = loop
        if self.reason is not None:
            self._event.set()

    def detach(self) -> None:
        """The loop is done; SIGINT interrupts again, the other signals find nothing left to stop."""
        self._loop = None

    def ask(self, reason: StopReason, asked_by: str = "") -> None:
        """Stop starting rollouts."""
        if self._may_be_asked():
            self.reason, self.asked_by = reason, asked_by
        if self._event is not None:
            self._event.set()

    def poll(self) -> bool:
        """Look for the drain file; whether a stop has been asked for, by whomever."""
        if self._file is not None and self._may_be_asked() and self._file.exists():
            self.ask(StopReason.FILE, _text(self._file))
        return self.reason is not None

    def ahead_of_limit(self) -> bool:
        """Whether the stop comes ahead of the job's time limit, with no SIGTERM since."""
        file = self._file
        return (
            not self.sigterm_received and file is not None and file.exists() and _text(file) == AHEAD_OF_LIMIT
        )

    def _may_be_asked(self) -> bool:
        return self.reason is None or self.reason in SERVER_STOPS

    async def pause(self, seconds: float) -> bool:
        """Sleep, or return ``True`` early because a stop was asked for."""
        import asyncio

        assert self._event is not None, "attach() comes first"
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return self.reason is not None
        return True

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signalled(number, leave=self._leave)

    def _signalled(self, number: int, *, leave: Callable[[int], object]) -> None:
        name = signal.Signals(number).name
        self.sigterm_received = self.sigterm_received or number == signal.SIGTERM
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._loop is None:
                raise KeyboardInterrupt
            if self._interrupts > 2:
                leave(130)
            self.at_once = self._interrupts == 2
        elif self._loop is None:
            if self._event is None:
                raise StoppedEarly(name)
            return
        reason = StopReason.INTERRUPT if number == signal.SIGINT else StopReason.SIGNAL
        if self.at_once:
            self.reason, self.asked_by = reason, name  # also after another request: the user wants out now
        self._loop.call_soon_threadsafe(self.ask, reason, name)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()[:100]
    except OSError as error:
        print(
            f"gym: the drain file cannot be read ({error.strerror}); draining all the same.", file=sys.stderr
        )
        return ""
