"""A publisher process: the trackers' libraries in an interpreter of their own, asked in JSON lines.

Every failure in it (a hang, a crash, a leak) stays in it: an answer that does not come in time ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_helix_server.trackers.errors import TrackerRefusedError, UnreachableError
from nemo_runs.processes import trees

PROGRAM = "nemo_engines.trackers.publisher"
_MARKER = "NHX_PUBLISHER"
"""The environment variable by which its processes are found."""
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
    _process: subprocess.Popen[bytes] | None = None
    _identity: trees.ProcessIdentity | None = None
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Of all that it starts: W&B's own program leads a session of its own."""
    _rest: bytes = b""
    _answered: bool = False

    def ask(self, **request: Any) -> Mapping[str, Any]:
        """One request and its answer; raises `TrackerRefusedError`, or `UnreachableError` with the
        process gone.
        """
        try:
            process = self._process or self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(self._line(process))
        except (OSError, ValueError) as error:
            self.kill()
            raise UnreachableError(f"the publisher ended: see {self.log}") from error
        except UnreachableError:
            self.kill()
            raise
        if "error" in answer:
            raise TrackerRefusedError(str(answer["error"]))
        return dict(answer)

    def close(self, timeout: float = _END_WITHIN) -> None:
        """Let it end by itself, if that does not take too long."""
        process, self._process = self._process, None
        self.opened.clear()
        if process is not None:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
                _reap(process)
                return
            self._end(process)

    def abandon(self) -> None:
        """Notify it that the service ends, and do not wait."""
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def kill(self) -> None:
        """End it with all that it started."""
        process, self._process = self._process, None
        self.opened.clear()
        if process is not None:
            self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.log, "wb", opener=_private) as log:
            self._process = subprocess.Popen(
                [str(self.python), "-m", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**self.environment, _MARKER: self._mark},
                cwd=self.log.parent,
                start_new_session=True,
            )
        self._identity = trees.identify(self._process.pid)
        self._rest, self._answered = b"", False
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert self._identity is not None
        trees.end_tree(self._identity, grace=0, marker=(_MARKER, self._mark))
        process.wait()
        _reap(process)

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        timeout = self.timeout if self._answered else self.timeout + _LOADING
        deadline = time.monotonic() + timeout
        while b"\n" not in self._rest:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise UnreachableError(f"the tracker did not answer within {timeout:.0f} s")
            block = os.read(process.stdout.fileno(), 1 << 16)
            if not block:
                raise UnreachableError(f"the publisher ended: see {self.log}")
            self._rest += block
        line, self._rest = self._rest.split(b"\n", 1)
        self._answered = True
        return line


def _reap(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
