"""Showing that something ends at all: work of milliseconds against work without an end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_FOR_EVER = 300
"""Seconds, far beyond what any machine under any load needs for milliseconds of work."""


@contextlib.contextmanager
def ends() -> Iterator[None]:
    """Fail where the work inside would go on for ever; matching of regular expressions can be interrupted."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"has not ended after {_FOR_EVER} s")

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_FOR_EVER)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
