"""What one job costs: making it, starting it, pausing it; each beside the same without a service."""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from helix.program import ENDED, JOBS, Program, in_turns, over, report, until

CREATE_LIMIT_MS = 15.0
RUNNING_LIMIT_MS = 150.0
PAUSE_LIMIT_MS = 500.0

POLLER = """
import os, sys, time
from pathlib import Path
flag, seen = Path(sys.argv[1]), Path(sys.argv[2])
Path(sys.argv[3]).touch()
while not flag.exists():
    time.sleep(0.005)
seen.write_text(str(time.time()))
"""
TRAINER = """
import sys, time
from pathlib import Path
from nemo_trainer.session import Session
with Session.open() as session:
    session.restore()
    Path(sys.argv[2]).touch()
    while session.wanted() != "pause":
        time.sleep(0.005)
    Path(sys.argv[1]).write_text(str(time.time()))
    session.publish(lambda folder: (folder / "state").write_text("x"), 1, "pause")
    session.progress(final_step=1)
    session.paused()
"""


class BareTable:
    """The rows of a job in a database of its own with the same promises, by one transaction each."""

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "bare.db", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._database.execute(f"PRAGMA {pragma}").close()
        self._database.execute("CREATE TABLE parts (id INTEGER PRIMARY KEY, kind TEXT, document TEXT)")

    def insert(self) -> None:
        """One job's rows."""
        rows = [(kind, "x" * 400) for kind in ("job", "attempt", "step", "transition", "transition")]
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT INTO parts (kind, document) VALUES (?, ?)", rows)
        self._database.execute("COMMIT")

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


def create(service: Program, rounds: int) -> bool:
    """Making a job, beside the same rows by bare SQL; the jobs wait for a slot, which another one has."""
    client, table = service.client(), BareTable(service.data_dir.parent)
    holder = client.create(["/bin/sleep", "600"])
    until(lambda: client.status(holder) == "active", "the first job runs")
    names: list[str] = []
    times = in_turns(rounds, bare=table.insert, ours=lambda: names.append(client.create(["/bin/true"])))
    for name in [*names, holder]:
        client.post(f"{JOBS}/{name}/cancel")
    until(lambda: client.status(holder) == "cancelled", "the first job is cancelled")
    client.close()
    table.close()
    limit = f"{CREATE_LIMIT_MS:.0f} ms"
    kept = statistics.median(times["ours"]) <= CREATE_LIMIT_MS
    return report("create a job, against one SQL commit", times["ours"], times["bare"], limit, ok=kept)


def running(service: Program, rounds: int) -> bool:
    """From the request to the command's first act, and to the status, beside starting it as a process."""
    client = service.client()
    bare, act, active = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            stamp = Path(folder, f"bare-{number}")
            began = time.time()
            process = subprocess.Popen(_stamping(stamp))
            took = _read(stamp) - began
            process.kill()
            process.wait()
            stamp = Path(folder, f"ours-{number}")
            began = time.time()
            name = client.create(_stamping(stamp))
            until(lambda name=name: client.status(name) == "active", "the job is active")  # type: ignore[misc]
            shown = time.time() - began
            if number:
                bare.append(1000 * took)
                act.append(1000 * (_read(stamp) - began))
                active.append(1000 * shown)
            client.post(f"{JOBS}/{name}/cancel")
            until(lambda name=name: client.status(name) in ENDED, "the job is cancelled")  # type: ignore[misc]
    client.close()
    limit = f"+{RUNNING_LIMIT_MS:.0f} ms"
    kept = [over(times, bare) <= RUNNING_LIMIT_MS for times in (act, active)]
    report("create -> first act, against a process", act, bare, limit, ok=kept[0])
    report("create -> shown active", active, bare, limit, ok=kept[1])
    return all(kept)


def pausing(service: Program, rounds: int) -> bool:
    """From the request until the workload knows, beside a process that polls a file."""
    client = service.client()
    bare, ours, rests = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            flag, seen, ready = (Path(folder, f"{name}-{number}") for name in ("flag", "seen", "ready"))
            process = subprocess.Popen([sys.executable, "-c", POLLER, str(flag), str(seen), str(ready)])
            until(ready.exists, "the process polls")
            began = time.time()
            threading.Thread(target=flag.touch).start()
            process.wait()
            bare.append(1000 * (float(seen.read_text()) - began))
            seen, ready = Path(folder, f"seen-ours-{number}"), Path(folder, f"ready-ours-{number}")
            name = client.create([sys.executable, "-c", TRAINER, str(seen), str(ready)], pause=60)
            until(ready.exists, "the training runs")
            until(lambda name=name: client.status(name) == "active", "the training is active")  # type: ignore[misc]
            began = time.time()
            client.post(f"{JOBS}/{name}/pause")
            until(lambda name=name: client.status(name) == "paused", "the job is paused")  # type: ignore[misc]
            rests.append(1000 * (time.time() - began))
            ours.append(1000 * (float(seen.read_text()) - began))
            client.post(f"{JOBS}/{name}/cancel")
    client.close()
    limit = f"{PAUSE_LIMIT_MS:.0f} ms"
    kept = statistics.median(ours) <= PAUSE_LIMIT_MS
    report("pause -> seen, against a polled file", ours, bare, limit, ok=kept)
    report("pause -> paused (checkpoint verified)", rests, bare, "", ok=True)
    return kept


def _stamping(path: Path) -> list[str]:
    return ["/bin/sh", "-c", 'date +%s.%N >"$0.new" && mv "$0.new" "$0"; exec sleep 600', str(path)]


def _read(path: Path) -> float:
    return float(until(lambda: path.exists() and path.read_text(), "the command has begun", 0.001))
