"""The lists of jobs and of runs as browsers get them, beside the bare query for the same rows."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from helix.program import NEMO, Program, in_turns, report

LIMIT_MS = 150.0
SIZE = 50
READ_SECONDS = 600.0
"""Within which the list of runs has to read all jobs, on a busy machine too."""
_SELECT = (
    "SELECT jobs.*, attempts.status_details, attempts.error_details FROM jobs "
    "JOIN attempts ON attempts.id = jobs.attempt_id WHERE {} "
    "ORDER BY jobs.created_at DESC, jobs.id DESC LIMIT 51"
)


def first_pages(service: Program, rounds: int) -> bool:
    """The first page, one far behind it, and filtered ones, each beside its SQL without any count."""
    cookie = _cookie(service)
    deep = _behind(service, 50_000)
    views = {
        "first page": ("/jobs", "1"),
        "the page behind 50,000 jobs": (
            deep,
            "jobs.created_at < (SELECT max(created_at) - 50000000000 FROM jobs)",
        ),
        "by kind of status": ("/jobs?state=failed", "jobs.status = 'error'"),
        "by a part of a name that one job has": ("/jobs?q=-99999", "jobs.name LIKE '%-99999%'"),
    }
    runs = {
        "its first page": ("/", "1"),
        "its last page": ("/?page=2000", "1"),
        "words that one has": ("/?q=-99999", "jobs.name LIKE '%-99999%'"),
        "by cost": ("/?sort=-cost", "1"),
    }
    _wait_for_all(service, cookie)
    kept = []
    with contextlib.closing(sqlite3.connect(service.data_dir / "jobs.db", timeout=60)) as database:
        named = [(f"list in a browser, {what}", view) for what, view in views.items()]
        named += [(f"runs in a browser, {what}", view) for what, view in runs.items()]
        for what, (path, condition) in named:
            times = in_turns(rounds, page=_page(service, path, cookie), bare=_bare(database, condition))
            slowest = sorted(times["page"])[int(0.9 * len(times["page"]))]
            ok = slowest < LIMIT_MS
            kept.append(report(what, times["page"], times["bare"], "150 ms", ok=ok))
    return all(kept)


def _wait_for_all(service: Program, cookie: str) -> None:
    """Until the page of runs has read all jobs, which begins with the first look at it."""
    ask = _page(service, "/", cookie)
    began = time.perf_counter()
    while b"for the first time" in ask():
        if time.perf_counter() - began > READ_SECONDS:
            raise SystemExit("not all jobs came into the list of runs")
        time.sleep(0.5)
    print(f"all jobs are in the list of runs {time.perf_counter() - began:.1f} s after the first look at it")


def _page(service: Program, path: str, cookie: str) -> Callable[[], bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{service.port}{path}", headers={"cookie": cookie})

    def ask() -> bytes:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    return ask


def _bare(database: sqlite3.Connection, condition: str) -> Callable[[], object]:
    return lambda: database.execute(_SELECT.format(condition)).fetchall()


class _Stay(urllib.request.HTTPRedirectHandler):
    """The answer to the address is wanted, not the page that it leads to."""

    def redirect_request(self, *_: object) -> None:
        return None


def _cookie(service: Program) -> str:
    argv = [str(NEMO), "services", "open", "--data-dir", str(service.data_dir)]
    address = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    try:
        urllib.request.build_opener(_Stay).open(address, timeout=60)
    except urllib.error.HTTPError as answer:
        return str(answer.headers["set-cookie"]).partition(";")[0]
    raise SystemExit("the address did not sign in")


def _behind(service: Program, number: int) -> str:
    """The address of the page behind so many jobs; its place is made of the job that is there."""
    with contextlib.closing(sqlite3.connect(service.data_dir / "jobs.db", timeout=60)) as database:
        order = "SELECT created_at, id FROM jobs ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ?"
        place = database.execute(order, (number,)).fetchone()
    text = base64.urlsafe_b64encode(json.dumps(place).encode()).decode()
    return f"/jobs?after={re.sub('=+$', '', text)}"
