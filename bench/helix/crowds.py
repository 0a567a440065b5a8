"""What very many jobs and watchers cost: pages, plain reads, a backlog, and nothing going on at all."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from helix.program import ENDED, JOBS, Program, in_turns, over, report, until

PAGE_LIMIT_MS = 15.0
WATCHED_LIMIT = 1.5
BACKLOG_LIMIT = 30.0
IDLE_LIMIT = 0.02
WATCHERS = 80
STATUSES = (*["completed"] * 80, *["error"] * 15, *["cancelled"] * 4, "paused")
"""Of each hundred jobs. Storage is kept for the paused ones alone: the others ended long ago."""
BACKENDS = ("automodel", "unsloth", "rl")
REST = {"optimizer": {"name": "adamw", "lr": 1e-5}, "batch": {"global": 32}, "dataset": "default/rows"}
"""What else stands in each spec."""
_SELECT = (
    "SELECT jobs.*, attempts.status_details, attempts.error_details FROM jobs "
    "JOIN attempts ON attempts.id = jobs.attempt_id WHERE {} "
    "ORDER BY jobs.created_at DESC, jobs.id DESC LIMIT 20"
)
FILTERS = {
    "status": ("filter[status]=error", "jobs.workspace = 'default' AND jobs.status = 'error'"),
    "spec.epochs": (
        "filter[spec.epochs]=77",
        "jobs.workspace = 'default' AND json_extract(jobs.spec, '$.\"epochs\"') IN (77, '77')",
    ),
    "spec.backend, a third of all": (
        "filter[spec.backend]=rl",
        "jobs.workspace = 'default' AND json_extract(jobs.spec, '$.\"backend\"') = 'rl'",
    ),
    "spec.epochs and status": (
        "filter[spec.epochs]=77&filter[status]=completed",
        (
            "jobs.workspace = 'default' AND jobs.status = 'completed' "
            "AND json_extract(jobs.spec, '$.\"epochs\"') IN (77, '77')"
        ),
    ),
}


def populate(service: Program, count: int) -> None:
    """Multiply one finished job in the database, the service being up; statuses, moments and names differ."""
    client = service.client()
    name = client.create(["/bin/true"])
    until(lambda: client.status(name) in ENDED, "the first job has ended")
    client.close()
    with contextlib.closing(sqlite3.connect(service.data_dir / "jobs.db", timeout=60)) as database:
        database.execute("PRAGMA synchronous=OFF")
        for table in ("jobs", "attempts", "steps", "tasks"):
            _multiply(database, table, name, count)
        database.commit()
    service.end()
    service.start()
    began = time.perf_counter()
    with contextlib.closing(sqlite3.connect(service.data_dir / "jobs.db", timeout=60)) as database:
        left = "SELECT count(*) FROM jobs WHERE spec_indexed = 0"
        until(lambda: database.execute(left).fetchone() == (0,), "the specs are in the index", 0.1)
    print(
        f"{count} jobs of an earlier version are in the index of specs after "
        f"{time.perf_counter() - began:.1f} s, the service being up"
    )


def _multiply(database: sqlite3.Connection, table: str, name: str, count: int) -> None:
    where = "name = ?" if table == "jobs" else "job_id = (SELECT id FROM jobs WHERE name = ? LIMIT 1)"
    found = database.execute(f"SELECT * FROM {table} WHERE {where}", (name,))
    columns = [column[0] for column in found.description]
    row = dict(zip(columns, found.fetchone(), strict=True))
    marks = ", ".join("?" * len(columns))
    quoted = ", ".join(f'"{column}"' for column in columns)
    database.executemany(
        f"INSERT INTO {table} ({quoted}) VALUES ({marks})",
        (
            [_other(column, row[column], table, number, row["updated_at"]) for column in columns]
            for number in range(count)
        ),
    )


def _other(column: str, value: Any, table: str, number: int, ended_at: int) -> Any:
    if column in {"id", "job_id", "attempt_id", "step_id"}:
        return f"{value}-{number}"
    if column in {"name", "fileset", "client_token"} and table == "jobs" and value:
        return f"{value}-{number}"
    if column == "status":
        return STATUSES[number % len(STATUSES)]
    if column == "created_at":
        return value - 1_000_000 * number
    if column == "storage_reclaimed_at":
        return None if STATUSES[number % len(STATUSES)] in {"completed", "paused"} else ended_at
    if column == "spec" and table == "jobs":
        return json.dumps({"epochs": number % 1000, "backend": BACKENDS[number % len(BACKENDS)], **REST})
    if column == "spec_indexed":
        return 0  # as in a database from before there was an index
    return value


def pages(service: Program, rounds: int, what: str) -> bool:
    """A filtered page and its count, beside the same SQL without a service."""
    client = service.client()
    kept = True
    with contextlib.closing(sqlite3.connect(service.data_dir / "jobs.db")) as database:
        for name, (query, condition) in FILTERS.items():

            def bare(condition: str = condition) -> None:
                database.execute(_SELECT.format(condition)).fetchall()
                database.execute(f"SELECT count(*) FROM jobs WHERE {condition}").fetchall()

            def ours(query: str = query) -> None:
                assert client.get(f"{JOBS}?page_size=20&{query}")["data"]

            times = in_turns(rounds, bare=bare, ours=ours)
            limit, more = f"+{PAGE_LIMIT_MS:.0f} ms", over(times["ours"], times["bare"])
            label = f"page of 20 by {name}, {what}"
            kept = report(label, times["ours"], times["bare"], limit, ok=more <= PAGE_LIMIT_MS) and kept
    client.close()
    return kept


@contextlib.contextmanager
def watchers(service: Program, count: int = WATCHERS) -> Iterator[None]:
    """So many open streams of the workspace's events, taken in and thrown away."""
    streams = [_watch(service.port) for _ in range(count)]
    stopping = threading.Event()
    reader = threading.Thread(target=_throw_away, args=(streams, stopping))
    reader.start()
    try:
        yield
    finally:
        stopping.set()
        reader.join()
        for stream in streams:
            stream.close()


def _watch(port: int) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port))
    request = f"GET /apis/jobs/v2/workspaces/default/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    stream.sendall(request.encode())
    assert stream.recv(12).endswith(b"200")
    return stream


def _throw_away(streams: list[socket.socket], stopping: threading.Event) -> None:
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while not stopping.is_set():
            for key, _ in selector.select(0.1):
                key.fileobj.recv(1 << 16)  # type: ignore[union-attr]


def watched(service: Program, rounds: int) -> bool:
    """A plain read while so many watch, beside the same read while nobody does."""
    client = service.client()
    name = client.get(f"{JOBS}?page_size=1")["data"][0]["name"]

    def read() -> None:
        client.get(f"{JOBS}/{name}")

    alone = in_turns(rounds, read=read)["read"]
    with watchers(service):
        quiet = in_turns(rounds, read=read)["read"]
    alone += in_turns(rounds, read=read)["read"]
    client.close()
    kept = statistics.median(quiet) <= WATCHED_LIMIT * statistics.median(alone)
    return report(
        f"GET of a job, {WATCHERS} watchers against none", quiet, alone, f"{WATCHED_LIMIT} x", ok=kept
    )


def backlog(service: Program, count: int, bare_rate: Callable[[int], float]) -> bool:
    """So many trivial jobs at once, to their ends, beside the same processes without a service."""
    client = service.client()
    began = time.perf_counter()
    names = [client.create(["/bin/true"]) for _ in range(count)]
    made = time.perf_counter() - began

    def left() -> int:
        query = 'filter={"$and":[{"source":"bench"},{"status":{"$nin":["completed","error","cancelled"]}}]}'
        return int(client.get(f"{JOBS}?page_size=1&{query}")["pagination"]["total_results"])

    until(lambda: left() == 0, "the backlog is done", 0.2)
    rate = count / (time.perf_counter() - began)
    ends = [client.status(name) for name in names]
    failed = sum(end != "completed" for end in ends)
    bare = bare_rate(count)
    client.close()
    ok = rate >= BACKLOG_LIMIT and not failed
    row = f"backlog of {count}: {rate:.1f} jobs/s, bare processes {bare:.1f}/s ({bare / rate:.1f} x), "
    row += f"made in {made:.1f} s, {failed} not completed; limit {BACKLOG_LIMIT:.0f}/s, none failed"
    print(row if ok else f"{row}  ABOVE", flush=True)
    return ok


def idle(service: Program, seconds: float) -> bool:
    """CPU of a service that nobody asks for anything."""
    time.sleep(3)
    before = service.cpu_seconds()
    time.sleep(seconds)
    share = (service.cpu_seconds() - before) / seconds
    ok = share <= IDLE_LIMIT
    row = f"idle: {100 * share:.2f} % of a core; limit {100 * IDLE_LIMIT:.0f} %"
    print(row if ok else f"{row}  ABOVE", flush=True)
    return ok
