"""The publisher: requests as JSON lines on standard input, one answer each on standard output.

    {"op": "open", "tracker": "mlflow", "job": ..., "run_id": ..., "folder": ..., ...}
        -> {"run_id": ..., "url": ..., "last": ...}
    {"op": "log", "job": ..., "rows": [[step, {name: value}], ...], "at": milliseconds}  -> {}
    {"op": "tell", "job": ..., "state": "running|paused|finished|failed|killed"}         -> {}
    {"op": "release", "job": ...}                                                        -> {}

What goes wrong is answered as ``{"error": "<sentence>"}``. The end of input ends the program, soon even when
a library hangs: its service is gone. It ends without an answer when what a library had started has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nemo_engines.trackers import redirects
from nemo_engines.trackers.mlflow_run import MlflowRun
from nemo_engines.trackers.runs import LibraryEndedError, MetricsRow, OpenTrackerRun, RunOpening
from nemo_engines.trackers.wandb_run import WandbRun
from nemo_runs import file_locks

_KINDS: dict[str, Callable[[RunOpening], OpenTrackerRun]] = {"mlflow": MlflowRun, "wandb": WandbRun}
_GRACE = 10.0
"""Seconds for letting go of open runs once the service is gone."""
_LONGEST = 300
"""Characters of an error's text that are reported."""


class OpenRuns:
    """The open runs, by job."""

    def __init__(self) -> None:
        self._runs: dict[str, OpenTrackerRun] = {}
        self._locks: dict[str, contextlib.ExitStack] = {}

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked for."""
        job = request["job"]
        match request["op"]:
            case "open":
                return self._open(job, request)
            case "log":
                rows = [MetricsRow(step, values) for step, values in request["rows"]]
                self._runs[job].log(rows, request["at"])
            case "tell":
                self._runs[job].set_state(request["state"])
                if request["state"] != "running":
                    self._forget(job)
            case "release":
                self._runs[job].release()
                self._forget(job)
        return {}

    def release_all(self) -> None:
        """Release every run; they stay open at the tracker."""
        for job in list(self._runs):
            with contextlib.suppress(Exception):
                self._runs[job].release()

    def _open(self, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
        folder = Path(request["folder"])
        if job not in self._locks:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = contextlib.ExitStack()
            # a publisher of the service before this one may still be ending
            lock.enter_context(file_locks.held(folder / ".lock"))
            self._locks[job] = lock
        if job not in self._runs:
            self._runs[job] = _KINDS[request["tracker"]](RunOpening.from_json(request, folder))
        run = self._runs[job]
        return {"run_id": run.run_id, "url": run.url, "last": run.last}

    def _forget(self, job: str) -> None:
        self._runs.pop(job, None)
        if lock := self._locks.pop(job, None):
            lock.close()


def main() -> int:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries print is not an answer
    requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    redirects.keep_out()
    publisher = OpenRuns()
    while (line := requests.get()) is not None:
        try:
            said = publisher.answer(json.loads(line))
        except LibraryEndedError as error:
            # without an answer the service starts another publisher, which finds out what has arrived
            sys.stderr.write(f"{_sentence(error)}\n")
            sys.stderr.flush()
            os._exit(1)
        except Exception as error:  # noqa: BLE001 - the edge of the program: any library's error is an answer
            said = {"error": _sentence(error)}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(said), file=answers, flush=True)
    publisher.release_all()
    sys.stderr.flush()
    os._exit(0)


def _read(requests: queue.SimpleQueue[str | None]) -> None:
    for line in sys.stdin:
        requests.put(line)
    requests.put(None)
    threading.Timer(_GRACE, os._exit, (1,)).start()


def _sentence(error: Exception) -> str:
    """What a library says, without the keys and passwords that it may have put into it."""
    text = " ".join(str(error).split())
    for name, value in os.environ.items():
        if len(value) > 3 and any(part in name for part in ("KEY", "TOKEN", "PASSWORD")):
            text = text.replace(value, "***")
    text = re.sub(r"//[^/@\s]+@", "//***@", text)
    return f"{type(error).__name__}: {text}"[:_LONGEST]


if __name__ == "__main__":
    sys.exit(main())
