"""What goes wrong about one job, kept apart: a job that cannot be handled holds up nobody else."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nemo_helix_server.errors import UnavailableError
from nemo_helix_server.executors.base import ExecutorError
from nemo_runs.clock import GrowingPause

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""Seconds until what failed is due again, see `ErrorIsolation.is_due`; twice as many each time."""


@dataclass(slots=True)
class ErrorIsolation:
    """Unexpected failures of the last round, one per job; each is logged when it is new, and tried again."""

    monotonic: Callable[[], float] = time.monotonic
    _last: dict[str, str] = field(default_factory=dict)
    _now: dict[str, str] = field(default_factory=dict)
    _retries: dict[str, GrowingPause] = field(default_factory=dict)

    def begin(self) -> None:
        """A new round: what does not fail again is over."""
        self._last, self._now = self._now, {}

    def is_due(self, about: str) -> bool:
        """Whether to try it in this round: what fails is tried less and less often, and said meanwhile.

        For what may take long where something is away; what is quick is tried in every round.
        """
        retry = self._retries.get(about)
        if retry is None or retry.is_due(self.monotonic()):
            return True
        if about in self._last:
            self._now[about] = self._last[about]
        return False

    @property
    def waiting(self) -> int:
        """How many things have failed and are to be tried again."""
        return len(self._retries)

    @contextlib.contextmanager
    def apart(self, about: str) -> Iterator[None]:
        """Keep a failure in the block to itself; that the database is away concerns everybody, and passes."""
        try:
            yield
        except (UnavailableError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, other packages' SystemExit too, the others go on
            sentence = f"{about} cannot be looked after: {type(error).__name__}: {error}"
            if sentence not in {self._last.get(about), self._now.get(about)}:
                # what other programs and machines cannot do is said; the rest is ours, and is looked for
                expected = isinstance(error, OSError | ExecutorError)
                _LOG.warning("%s; it is tried again", sentence, exc_info=None if expected else error)
            self._now[about] = sentence
            retry = self._retries.setdefault(about, GrowingPause(_FIRST_PAUSE, _LONGEST_PAUSE))
            retry.fail(self.monotonic())
        else:
            self._retries.pop(about, None)

    def sentences(self) -> Sequence[str]:
        """What is wrong at the moment, a sentence per job."""
        return list({**self._last, **self._now}.values())
