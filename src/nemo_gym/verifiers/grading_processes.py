"""Processes that grade: code that may hang, crash or print runs in them, and each call has its time.

The program of each is `nemo_gym.verifiers.grading_worker`. One that does not answer in time is ended with all
that it started, and the next call gets a new one. They end by themselves when this process is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from nemo_gym.types import RolloutFailedError

PROGRAM = "nemo_gym.verifiers.grading_worker"
LOADING = 120.0
"""Seconds that the first answer of a process may take besides: it loads its libraries before."""


class GradingProcesses:
    """At most ``count`` processes that call the function which ``target`` (``module:function``) makes.

    ``target`` is called once in each process with ``arguments``, and returns the function that is called for
    each request. All that goes there and back is JSON.
    """

    def __init__(
        self, target: str, arguments: Mapping[str, Any], *, time_limit: float, count: int = 2
    ) -> None:
        self._setup = orjson.dumps({"target": target, "arguments": arguments, "time_limit": time_limit})
        self._time_limit = time_limit
        self._count = count
        self._threads: ThreadPoolExecutor | None = None
        self._idle: list[_Process] = []
        weakref.finalize(self, _end_all, self._idle)

    async def call(self, **request: Any) -> Any:
        """What the function returns for this request.

        Raises `RolloutFailedError` (``verifier_error``) when it raises, takes too long or takes its process
        with it.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="grading")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, request)

    def _call(self, request: Mapping[str, Any]) -> Any:
        body = orjson.dumps(request, default=str)
        process = self._idle.pop() if self._idle else _Process(self._setup)
        try:
            answer = process.ask(body, self._time_limit)
        except (OSError, ValueError, TimeoutError) as error:
            process.end()
            if isinstance(error, TimeoutError):
                said = f"grading took more than {self._time_limit:g} s"
            else:
                said = f"the process that grades ended ({process.end_status})"
            raise RolloutFailedError("verifier_error", said) from error
        self._idle.append(process)
        if "error" in answer:
            raise RolloutFailedError("verifier_error", str(answer["error"]))
        return answer["result"]


class _Process:
    """One process; started at once."""

    def __init__(self, setup: bytes) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt at the terminal is for the collector, which lets it finish
        )
        self._setup: bytes | None = setup
        self._rest = b""

    @property
    def end_status(self) -> str:
        """How it ended, in words."""
        status = self._popen.returncode
        return f"signal {-status}" if status is not None and status < 0 else f"status {status}"

    def ask(self, body: bytes, time_limit: float) -> Mapping[str, Any]:
        """Send one request; `TimeoutError` without an answer, `OSError` or `ValueError` when it is gone."""
        lines = [body] if self._setup is None else [self._setup, body]
        limit = time_limit if self._setup is None else time_limit + LOADING
        self._setup = None
        assert self._popen.stdin is not None
        self._popen.stdin.write(b"\n".join([*lines, b""]))
        self._popen.stdin.flush()
        answer = orjson.loads(self._line(time.monotonic() + limit))
        assert isinstance(answer, dict)
        return answer

    def end(self) -> None:
        """End it with all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _line(self, deadline: float) -> bytes:
        assert self._popen.stdout is not None
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._popen.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            block = os.read(self._popen.stdout.fileno(), 1 << 16)
            if not block:
                raise BrokenPipeError
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _end_all(processes: list[_Process]) -> None:
    while processes:
        processes.pop().end()
