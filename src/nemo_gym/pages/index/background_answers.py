"""Answers that take long (a bill, a certificate, a comparison): worked out behind the pages, with age."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from nemo_gym.errors import GymError
from nemo_runs.clock import SecondsClock
from nemo_runs.errors import RunsError

Value = TypeVar("Value")

_KEPT: Final = 200
"""Answers; those that were asked for longest ago are forgotten."""


@dataclass(frozen=True, slots=True)
class LateAnswer(Generic[Value]):
    """What is known of an answer now."""

    value: Value | None
    """``None``: it was never worked out, or could not be."""
    at: float
    """When it was worked out: UTC seconds; 0: never."""
    pending: bool
    """Whether it is being worked out, since it was never, or its files have changed since."""
    error: str = ""
    """Why it could not be worked out."""


@dataclass(slots=True)
class _Known:
    answer: LateAnswer[Any]
    of: Hashable
    """What the files were like."""


class BackgroundAnswers:
    """Works out one answer at a time, newest question first, in a thread of its own."""

    def __init__(self, clock: SecondsClock, *, at_once: bool = False) -> None:
        """``at_once``: who asks waits for the answer, for pages that are written as files."""
        self._clock = clock
        self._at_once = at_once
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._waiting: OrderedDict[Hashable, tuple[Hashable, Callable[[], Any]]] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.version = 0
        """Changes whenever an answer was worked out."""

    def ask(self, key: Hashable, files: Hashable, work: Callable[[], Value]) -> LateAnswer[Value]:
        """What is known now; ``work`` is done later where ``files`` is not what it was at the last answer."""
        if self._at_once:
            with self._changed:
                self._waiting[key] = files, work
            while self._one():
                pass
        with self._changed:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            if known is None or known.of != files:
                self._waiting[key] = files, work
                self._waiting.move_to_end(key)
                self._changed.notify_all()
            if known is None:
                return LateAnswer(None, 0.0, pending=True)
            before = known.answer
            return LateAnswer(before.value, before.at, known.of != files, before.error)

    def start(self) -> None:
        """Begin to work; nothing is worked out before."""
        self._thread = threading.Thread(target=self._run, name="pages-answers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End; an answer that is being worked out is given up with the process."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
            self._one()

    def _one(self) -> bool:
        with self._changed:
            if not self._waiting:
                return False
            key, (files, work) = self._waiting.popitem()
        value, error = None, ""
        try:
            value = work()
        except (GymError, RunsError, OSError, ValueError) as problem:
            error = str(problem)
        with self._changed:
            answer = LateAnswer(value, self._clock.seconds(), pending=False, error=error)
            self._known[key] = _Known(answer, files)
            self.version += 1
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return True
