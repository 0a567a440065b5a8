"""What goes wrong about one job, kept apart: a job that cannot be handled holds up nobody else."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nemo_helix_server.errors import UnavailableError

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class ErrorIsolation:
    """Unexpected failures of the last round, one per job; each is logged when it is new, and tried again."""

    _last: dict[str, str] = field(default_factory=dict)
    _now: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """A new round: what does not fail again is over."""
        self._last, self._now = self._now, {}

    @contextlib.contextmanager
    def apart(self, about: str) -> Iterator[None]:
        """Keep a failure in the block to itself; that the database is away concerns everybody, and passes."""
        try:
            yield
        except UnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a workload made of its files, the others go on
            sentence = f"{about} cannot be looked after: {type(error).__name__}: {error}"
            if sentence not in {self._last.get(about), self._now.get(about)}:
                _LOG.exception("%s cannot be looked after; it is tried again", about)
            self._now[about] = sentence

    def sentences(self) -> Sequence[str]:
        """What is wrong at the moment, a sentence a job."""
        return list({**self._last, **self._now}.values())
