"""A service as a process of its own on a folder of its own, and a client that costs next to nothing."""

from __future__ import annotations

import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

NEMO = Path(sys.executable).parent / "nemo"
JOBS = "/apis/jobs/v2/workspaces/default/jobs"
ENDED = frozenset({"completed", "error", "cancelled"})
TIMEOUT = 120.0
Found = TypeVar("Found")


class Client:
    """One kept connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        refusable: bool = False,
    ) -> Any:
        """The answer as JSON; anything but success, or a refusal that may be, ends the measurement."""
        data = None if body is None else json.dumps(body).encode()
        kind = {"content-type": "application/json"} if data else {}
        self._connection.request(method, path, data, {**kind, **(headers or {})})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 300 and not (refusable and response.status == 409):
            sys.exit(f"{method} {path}: {response.status} {answer[:500]!r}")
        return json.loads(answer) if answer else None

    def get(self, path: str) -> Any:
        """Ask for something."""
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        """Ask for a change."""
        return self.ask("POST", path, body)

    def create(self, command: Sequence[str], *, pause: int = 0, name: str | None = None) -> str:
        """Make a job of one step; its name."""
        return str(self.post(JOBS, job(command, pause=pause, name=name))["name"])

    def status(self, name: str) -> str:
        """A job's status."""
        return str(self.get(f"{JOBS}/{name}")["status"])

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


class Program:
    """One `nemo services run`, with leases of its own."""

    def __init__(
        self,
        data_dir: Path,
        *,
        slots: int | None = None,
        wait: bool = True,
        source: Path | None = None,
        settings: Path | None = None,
    ) -> None:
        """``source``: the tree whose code is run, in place of this one; ``settings``: a file of settings."""
        self.data_dir = data_dir
        self._options = ["--settings", str(settings)] if settings is not None else []
        self._environ = {**os.environ, "NEMO_LEASES_DIR": str(data_dir.parent / "leases")}
        if slots is not None:
            self._environ["NEMO_LEASES_SLOTS"] = str(slots)
        if source is not None:
            self._environ["PYTHONPATH"] = str(source / "src")
        self._environ["NHX_LOG_LEVEL"] = "warning"
        self.start(wait=wait)

    def start(self, *, wait: bool = True) -> None:
        """Start it, for the first time or again."""
        argv = [str(NEMO), "services", "run", "--port", "0", "--data-dir", str(self.data_dir), "--json"]
        argv += self._options
        self.errors = (self.data_dir.parent / "stderr").open("ab")
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.errors, env=self._environ)
        if wait:
            self.wait()

    def wait(self) -> None:
        """Return when it is ready."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit((self.data_dir.parent / "stderr").read_text())
        self.port = int(json.loads(line)["url"].rpartition(":")[2])

    def client(self) -> Client:
        """A new connection."""
        return Client(self.port)

    def cpu_seconds(self) -> float:
        """CPU that the service has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it without warning; its jobs go on."""
        self._end(signal.SIGKILL)

    def end(self) -> None:
        """Ask it to end; its jobs go on."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait()
        self.errors.close()
        assert self.process.stdout is not None
        self.process.stdout.close()


def job(command: Sequence[str], *, pause: int = 0, name: str | None = None) -> dict[str, Any]:
    """The body that makes a job of one step."""
    step = {
        "name": "main",
        "executor": {"provider": "subprocess", "command": list(command)},
        "lifecycle": {"pause_deadline_seconds": pause},
    }
    named = {"name": name} if name else {}
    return {**named, "source": "bench", "spec": {"epochs": 3}, "platform_spec": {"steps": [step]}}


def until(look: Callable[[], Found], what: str, between: float = 0.005) -> Found:
    """Poll until something is true, and give it back; ends the measurement when that takes too long."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := look()):
        if time.monotonic() > deadline:
            sys.exit(f"waited in vain until {what}")
        time.sleep(between)
    return found


def milliseconds(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - started)


def in_turns(rounds: int, **actions: Callable[[], Any]) -> dict[str, list[float]]:
    """Times of several actions in milliseconds, one of each a round, the first round left out."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        for name, action in actions.items():
            took = milliseconds(action)
            if number:
                times[name].append(took)
    return times


def report(what: str, times: Sequence[float], bare: Sequence[float], limit: str, *, ok: bool) -> bool:
    """Print one line: the median, the bare median, their ratio, what is over; give ``ok`` back."""
    mine, base = statistics.median(times), statistics.median(bare)
    row = f"{what:44} {mine:9.1f} {base:9.1f} {mine / base:7.2f} {mine - base:9.1f}  {limit}"
    print(row if ok else f"{row}  ABOVE", flush=True)
    return ok


def over(times: Sequence[float], bare: Sequence[float]) -> float:
    """How much longer, in milliseconds, medians compared."""
    return statistics.median(times) - statistics.median(bare)
