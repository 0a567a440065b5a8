"""A program that answers each line of JSON by another in time, and is ended with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from nemo_runs.processes import trees

_MARKER = "BATON_LINE_PROGRAM"
"""The environment variable by which what it starts is found, in whatever session that runs."""
_BLOCK = 1 << 16


class LineProgram:
    """One process, started at once in a session of its own; asked by one thread at a time."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        errors: IO[bytes] | None = None,
    ) -> None:
        """``environ``, ``cwd`` and ``errors`` (standard error) are by default those of this process.

        Raises `OSError` when it cannot be started.
        """
        self._mark = uuid.uuid4().hex
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**(os.environ if environ is None else environ), _MARKER: self._mark},
            cwd=cwd,
            start_new_session=True,  # an interrupt at the terminal is for this process
        )
        self._identity = trees.identify(self._process.pid)
        self._rest = b""

    @property
    def end_status(self) -> str:
        """How it ended, in words."""
        status = self._process.returncode
        return f"signal {-status}" if status is not None and status < 0 else f"status {status}"

    def ask(self, *lines: bytes, within: float) -> Mapping[str, Any]:
        """Send lines, and wait for one answer, an object.

        Raises `TimeoutError` when there is none after ``within`` seconds, `OSError` when the program is gone,
        and `ValueError` for another answer. Nothing can be asked after any of these: call `end`.
        """
        deadline = time.monotonic() + within
        assert self._process.stdin is not None
        self._process.stdin.write(b"".join(line + b"\n" for line in lines))
        self._process.stdin.flush()
        answer = json.loads(self._line(deadline))
        if isinstance(answer, dict):
            return answer
        raise ValueError("an answer must be an object")

    def close(self, within: float) -> None:
        """Let it end by itself when its input ends; after ``within`` seconds it is ended.

        What it has left behind then goes on: it may still have something to write.
        """
        self.close_input()
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            self.end()
        else:
            self._close_output()

    def close_input(self) -> None:
        """Notify it that nothing is asked any more, and do not wait."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def end(self) -> None:
        """End it with all that it started."""
        trees.end_tree(self._identity, grace=0, marker=(_MARKER, self._mark))
        self._process.wait()
        self.close_input()
        self._close_output()

    def _close_output(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise TimeoutError("there was no answer in time")
            block = os.read(self._process.stdout.fileno(), _BLOCK)
            if not block:
                raise BrokenPipeError("the program ended")
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        return line
