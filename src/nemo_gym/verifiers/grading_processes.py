"""Processes that grade: code that may hang, crash or print runs in them, and each call has its time.

The program of each is `nemo_gym.verifiers.grading_worker`. One that does not answer in time is ended with all
that it started, and the next call gets a new one. They end by themselves when this process is gone.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from nemo_gym.types import RolloutFailedError
from nemo_runs.processes.line_program import LineProgram

PROGRAM = "nemo_gym.verifiers.grading_worker"
LOADING = 120.0
"""Seconds that the first answer of a process may take besides: it loads its libraries before."""


class GradingProcesses:
    """At most ``count`` processes that call the function which ``target`` (``module:function``) makes.

    ``target`` is called once in each process with ``arguments``, and returns the function that is called for
    each request. All that goes there and back is JSON.
    """

    def __init__(
        self,
        target: str,
        arguments: Mapping[str, Any],
        *,
        time_limit: float,
        count: int = 2,
        python: Sequence[str] = (sys.executable,),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``python``: an interpreter with its options, which has orjson; ``environ``: its variables."""
        self._setup = orjson.dumps({"target": target, "arguments": arguments, "time_limit": time_limit})
        self._time_limit = time_limit
        self._count = count
        self._argv = [*python, "-m", PROGRAM]
        self._environ = environ
        self._threads: ThreadPoolExecutor | None = None
        self._idle: list[LineProgram] = []
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
        idle = self._idle.pop() if self._idle else None
        process = idle or LineProgram(self._argv, environ=self._environ)
        try:
            if idle is not None:
                answer = process.ask(body, within=self._time_limit)
            else:
                answer = process.ask(self._setup, body, within=self._time_limit + LOADING)
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


def _end_all(processes: list[LineProgram]) -> None:
    while processes:
        processes.pop().end()
