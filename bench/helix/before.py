"""Two versions of the service in one run, in turns: making jobs, and backlogs of trivial ones."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from helix.program import ENDED, JOBS, Client, Program, milliseconds, until
from helix.requests import BareTable

BACKLOG, TIMES = 200, 3
_LEFT = 'filter={"$and":[{"source":"bench"},{"status":{"$nin":["completed","error","cancelled"]}}]}'


def compare(source: Path, rounds: int, slots: int) -> None:
    """Print what takes how long with this code and with that of ``source``."""
    _create(source, rounds)
    _backlogs(source, slots)


@contextlib.contextmanager
def _both(source: Path, slots: int) -> Iterator[tuple[Program, Program]]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        now = Program(Path(one, "data"), slots=slots)
        before = Program(Path(other, "data"), slots=slots, source=source)
        try:
            yield now, before
        finally:
            now.end()
            before.end()


def _create(source: Path, rounds: int) -> None:
    with _both(source, 1) as services, tempfile.TemporaryDirectory() as folder:
        table = BareTable(Path(folder))
        clients = [service.client() for service in services]
        for client in clients:
            holder = client.create(["/bin/sleep", "600"])
            until(
                lambda client=client, holder=holder: client.status(holder) == "active", "the first job runs"
            )  # type: ignore[misc]
        times: dict[str, list[float]] = {"bare": [], "now": [], "before": []}
        for number in range(2 * rounds):
            times["bare"].append(milliseconds(table.insert))
            turn = list(zip(("now", "before"), clients, strict=True))
            for name, client in turn if number % 2 else reversed(turn):
                times[name].append(milliseconds(partial(client.create, ["/bin/true"])))
        commit, now, before = (statistics.median(times[name]) for name in ("bare", "now", "before"))
        for name, took in (("now", now), ("before", before)):
            print(f"create, {name}: {took:.2f} ms, a commit {commit:.2f} ms: {took / commit:.1f} commits")
        print(f"create: {now / before:.2f} times the time of before")
        for client in clients:
            _cancel_all(client)
        table.close()


def _backlogs(source: Path, slots: int) -> None:
    rates: dict[str, list[float]] = {"now": [], "before": []}
    cpu = dict.fromkeys(rates, 0.0)
    with _both(source, slots) as services:
        for _ in range(TIMES):
            for name, service in zip(rates, services, strict=True):
                began = service.cpu_seconds()
                client = service.client()
                rates[name].append(_rate(client))
                client.close()
                cpu[name] += service.cpu_seconds() - began
    for name, seconds in cpu.items():
        print(f"backlog, {name}: {1000 * seconds / BACKLOG / TIMES:.1f} ms of the service's CPU for a job")
    print(f"backlog, CPU: {cpu['now'] / cpu['before']:.2f} times that of before")
    now, before = (statistics.median(rates[name]) for name in rates)
    print(f"backlog of {BACKLOG}: {now:.1f} jobs/s now, {before:.1f} before: {now / before:.2f} times")


def _rate(client: Client) -> float:
    began = time.perf_counter()
    for _ in range(BACKLOG):
        client.create(["/bin/true"])
    until(lambda: _left(client) == 0, "the backlog is done", 0.05)
    return BACKLOG / (time.perf_counter() - began)


def _left(client: Client) -> int:
    return int(client.get(f"{JOBS}?page_size=1&{_LEFT}")["pagination"]["total_results"])


def _cancel_all(client: Client) -> None:
    while data := [
        job for job in client.get(f"{JOBS}?page_size=100&{_LEFT}")["data"] if job["status"] not in ENDED
    ]:
        for job in data:
            client.ask("POST", f"{JOBS}/{job['name']}/cancel", refusable=True)
        time.sleep(0.2)
