"""A publisher process: the trackers' libraries in an interpreter of their own, asked in JSON lines.

Every failure in it (a hang, a crash, a leak) stays in it: an answer that does not come in time ends it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_helix_server.trackers.errors import TrackerRefusedError, UnreachableError
from nemo_runs.processes.line_program import LineProgram

PROGRAM = "nemo_engines.trackers.publisher"
_LOADING = 60.0
"""Seconds that the first answer may take besides: the libraries load before it."""
_END_WITHIN = 15.0
"""Seconds that an orderly end may take: the program itself gives up after ten."""


@dataclass(slots=True)
class PublisherProcess:
    """One process; started when it is first asked."""

    python: Path
    environment: Mapping[str, str]
    log: Path
    """Where its standard error goes; truncated at each start."""
    timeout: float
    """Seconds that an answer may take."""
    opened: set[str] = field(default_factory=set)
    """Jobs whose runs this process has open."""
    _program: LineProgram | None = None

    def ask(self, **request: Any) -> Mapping[str, Any]:
        """One request and its answer; raises `TrackerRefusedError`, or `UnreachableError` with the
        process gone.
        """
        within = self.timeout if self._program is not None else self.timeout + _LOADING
        try:
            program = self._program or self._start()
            answer = program.ask(json.dumps(request).encode(), within=within)
        except TimeoutError as error:
            self.kill()
            raise UnreachableError(f"the tracker did not answer within {within:.0f} s") from error
        except (OSError, ValueError) as error:
            self.kill()
            raise UnreachableError(f"the publisher ended: see {self.log}") from error
        if "error" in answer:
            raise TrackerRefusedError(str(answer["error"]))
        return dict(answer)

    def close(self, timeout: float = _END_WITHIN) -> None:
        """Let it end by itself, if that does not take too long."""
        program, self._program = self._program, None
        self.opened.clear()
        if program is not None:
            program.close(timeout)

    def abandon(self) -> None:
        """Notify it that the service ends, and do not wait."""
        if self._program is not None:
            self._program.close_input()

    def kill(self) -> None:
        """End it with all that it started."""
        program, self._program = self._program, None
        self.opened.clear()
        if program is not None:
            program.end()

    def _start(self) -> LineProgram:
        self.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.log, "wb", opener=_private) as log:
            argv = [str(self.python), "-m", PROGRAM]
            self._program = LineProgram(argv, environ=self.environment, cwd=self.log.parent, errors=log)
        return self._program


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
