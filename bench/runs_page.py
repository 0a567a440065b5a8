"""The page Runs with 100,000 rows, beside the bare query of its rows, in one run.

Limit: 150 ms of CPU for each view, from the request to the last byte. Ends with 1 when one is above.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from starlette.datastructures import QueryParams

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.browser.run_rows import many_rows

from nemo_gym.pages.viewing import view_application
from nemo_pages.runs.table import RunTable
from nemo_pages.runs.view import RunsView

ROWS = 100_000
ROUNDS = 7
LIMIT_MS = 150.0
VIEWS = {
    "first page": "",
    "last page": "page=2000",
    "words that many have": "q=model-3+gpu",
    "words that one has": "q=job-099999",
    "one state": "state=waiting",
    "one tag": "tag=team%3Da",
    "by cost": "sort=-cost",
    "by a setting": "sort=-value%3Alearning_rate&column=state&column=value%3Alearning_rate",
}


def milliseconds(work: Callable[[], object]) -> float:
    """CPU time of a call, the median of some; other work of the machine changes it little."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return statistics.median(times)


def main() -> int:
    """Print a line for each view."""
    table = RunTable()
    start = time.process_time()
    table.put("jobs", many_rows(ROWS), complete=True)
    print(f"{ROWS:,} rows put into the table in {time.process_time() - start:.1f} s of CPU, once")
    transport = httpx.ASGITransport(view_application(table))
    slow = 0
    with asyncio.Runner() as runner:
        client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        for name, query in VIEWS.items():
            view = RunsView.read(QueryParams(query))
            bare = milliseconds(lambda view=view: table.answer(view))
            page = milliseconds(lambda query=query: runner.run(client.get(f"/?{query}")))
            slow += page > LIMIT_MS
            print(f"{name:22} {page:6.1f} ms, of which its rows {bare:6.1f} ms (limit {LIMIT_MS:.0f} ms)")
        runner.run(client.aclose())
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
