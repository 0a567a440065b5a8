"""The process that has lm-eval, and the lines of JSON that are exchanged with it.

It ends by itself when its input does: when this process has ended, however that came about.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

from nemo_gym.errors import GymError

_MODULE = "nemo_gym.harness.worker"
_TO_LEAVE = 10.0
"""Seconds for its end after its input has ended."""
_PRINTED = 16 << 20
"""Bytes that it may print before what it printed is given back: tasks may print with each answer."""
_TAIL = 4000
"""Bytes at the end of what it printed that are looked at."""


class HarnessError(GymError):
    """What lm-eval, or a task of it, says is wrong."""


class WorkerEndedError(HarnessError):
    """The process is gone: what was asked last may have ended it, or somebody else."""


class TokenizerNeededError(HarnessError):
    """A task asks for likelihoods of tokens, and it was not said which tokenizer makes them."""


class UnknownHarnessTaskError(HarnessError):
    """There is no task of that name."""


_KINDS: dict[str, type[HarnessError]] = {
    "unknown": UnknownHarnessTaskError,
    "no_tokenizer": TokenizerNeededError,
}


class Worker:
    """One process. Requests may come from several threads; each is answered in its turn."""

    def __init__(self, python: Path, environ: Mapping[str, str]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(python), "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=dict(environ),
            start_new_session=True,  # Ctrl-C is for us, who drain
        )
        self._freed = 0
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._last = 0
        self._reader = threading.Thread(target=self._read, name="lm-eval", daemon=True)
        self._reader.start()

    def ask(self, op: str, **fields: Any) -> Any:
        """Ask and wait. Raises `HarnessError`, and `WorkerEndedError` when the process is gone."""
        return self.send(op, **fields).result()

    def send(self, op: str, **fields: Any) -> Future[Any]:
        """Ask; the answer comes later. Raises `HarnessError`, at once or from the future."""
        future: Future[Any] = Future()
        with self._lock:
            self._last += 1
            number = self._last
            self._waiting[number] = future
            if os.fstat(self._errors.fileno()).st_size > self._freed + _PRINTED:
                self._free_what_was_printed()
            line = json.dumps({"id": number, "op": op, **fields}) + "\n"
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
            except (OSError, ValueError):
                self._waiting.pop(number, None)
                raise WorkerEndedError(self._gone()) from None
        return future

    def close(self) -> None:
        """End the process; nothing is asked any more."""
        with self._lock:
            if self._process.stdin is not None and not self._process.stdin.closed:
                with contextlib.suppress(OSError):  # it was gone before
                    self._process.stdin.close()
        try:
            self._process.wait(_TO_LEAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._lock:
                future = self._waiting.pop(answer["id"], None)
            if future is None or not future.set_running_or_notify_cancel():
                continue
            if "ok" in answer:
                future.set_result(answer["ok"])
            else:
                future.set_exception(_KINDS.get(answer["error"], HarnessError)(answer["message"]))
        with self._lock:
            left, self._waiting = list(self._waiting.values()), {}
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(WorkerEndedError(self._gone()))

    def _free_what_was_printed(self) -> None:
        """Give back the space of it; the process goes on writing behind, where the file has a hole then."""
        self._freed = os.fstat(self._errors.fileno()).st_size
        os.ftruncate(self._errors.fileno(), 0)

    def _gone(self) -> str:
        """Why it ended, by the last line that it printed."""
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "the process that grades does not take questions any more"
        size = os.fstat(self._errors.fileno()).st_size
        last = os.pread(self._errors.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")
        words = (last.strip("\0\n ").splitlines() or ["it said nothing"])[-1]
        how = f"signal {-status}" if status < 0 else str(status)
        return f"the process that has lm-eval ended with {how}: {words}"
