"""Calls of executors, which other packages may bring: what each raises, answers and takes is known."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nemo_helix_server.executors.answers import WrongAnswerError
from nemo_helix_server.executors.base import ExecutorError
from nemo_runs.extensions import entry_points

_LOG = logging.getLogger(__name__)
LONGEST_CALL = 30.0
"""Seconds after which a call that must return at once is a problem."""
_MAY_TAKE_LONG = {"open": 60.0, "start": 600.0, "check": 600.0}
"""The same for those that need not."""
_SHOWN = 60.0
"""Seconds for which a failure is a problem of the service, if it does not happen again."""
_REMEMBERED = 600.0
"""Seconds in which the same failure is not logged again."""

Answer = TypeVar("Answer")


class BrokenExecutorError(ExecutorError):
    """An executor did what none may do; the message names it and its package. Asking again is safe."""


def _name(error: Exception, name: str) -> None:
    """Add the name of the executor that raised an error, unless it has one."""
    if isinstance(error, ExecutorError) and not error.executor:
        error.executor = name


@dataclass(frozen=True, slots=True)
class _UnderWay:
    name: str
    method: str
    since: float


@dataclass(slots=True)
class _Failure:
    sentence: str
    at: float
    over: bool = False


@dataclass(slots=True)
class ExecutorCalls:
    """The calls of all executors of a service; safe for all threads."""

    title_of: Callable[[str], str] = "the executor {}".format
    """How messages name an executor, and the package that it comes from."""
    monotonic: Callable[[], float] = time.monotonic
    _under_way: dict[int, _UnderWay] = field(default_factory=dict)
    _failures: dict[tuple[str, str, str], _Failure] = field(default_factory=dict)
    _numbers: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(
        self,
        name: str,
        method: str,
        call: Callable[[], object],
        check: Callable[[Any], Answer],
        *,
        about: str = "",
        allowed: tuple[type[Exception], ...] = (ExecutorError,),
    ) -> Answer:
        """Call a method of an executor; ``check`` looks at the answer, and may raise `WrongAnswerError`.

        ``about`` is the run that it is asked about, if any. What is ``allowed`` goes through. Everything else
        that it raises, `SystemExit` too, becomes `BrokenExecutorError`, is logged once, and is among
        `problems`.
        """
        number = self._begin(name, method)
        try:
            answer = check(call())
        except KeyboardInterrupt:
            raise
        except WrongAnswerError as error:
            failed: BaseException = error
            sentence = f"{self.title_of(name)} answers wrongly to {method}: {error}"
        except allowed as error:
            self._worked(name, method, about)
            _name(error, name)
            raise
        except BaseException as error:  # noqa: BLE001 - it is other packages' code, and others go on
            failed = error
            sentence = (
                f"{self.title_of(name)} fails in {method}: {' '.join(entry_points.said(error).split())}"
            )
        else:
            self._worked(name, method, about)
            return answer
        finally:
            with self._lock:
                del self._under_way[number]
        self.failed(name, method, sentence, about=about, error=failed)
        broken = BrokenExecutorError(sentence)
        broken.executor = name
        raise broken from failed

    def failed(
        self, name: str, method: str, sentence: str, *, about: str = "", error: BaseException | None = None
    ) -> None:
        """Note what is wrong with an executor, and log it unless that was done."""
        now = self.monotonic()
        with self._lock:
            self._failures = {key: one for key, one in self._failures.items() if now - one.at <= _REMEMBERED}
            new = sentence not in {one.sentence for one in self._failures.values()}
            self._failures[name, method, about] = _Failure(sentence, now)
        if new:
            _LOG.error("%s; it is tried again", sentence, exc_info=error)

    def problems(self) -> Sequence[str]:
        """What is wrong with executors now, a sentence each."""
        now = self.monotonic()
        with self._lock:
            failures = [
                one.sentence for one in self._failures.values() if not one.over and now - one.at <= _SHOWN
            ]
        return [*dict.fromkeys(failures), *self.slow()]

    def slow(self) -> Sequence[str]:
        """Calls that take too long, a sentence each."""
        now = self.monotonic()
        with self._lock:
            found = list(self._under_way.values())
        return [
            f"{self.title_of(one.name)} has not returned from {one.method} for {now - one.since:.0f} seconds"
            for one in found
            if now - one.since > _MAY_TAKE_LONG.get(one.method, LONGEST_CALL)
        ]

    def _begin(self, name: str, method: str) -> int:
        with self._lock:
            self._numbers += 1
            self._under_way[self._numbers] = _UnderWay(name, method, self.monotonic())
            return self._numbers

    def _worked(self, name: str, method: str, about: str) -> None:
        if self._failures:
            with self._lock:
                if (failure := self._failures.get((name, method, about))) is not None:
                    failure.over = True
