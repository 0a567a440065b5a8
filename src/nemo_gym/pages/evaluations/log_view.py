"""The end of a log over all jobs of a benchmark, with the seams between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.status import logs
from nemo_gym.pages.index.known_runs import KnownBenchmark, KnownRun
from nemo_pages.errors import NoSuchPageError

LINES: Final = (200, 1000, 5000)
"""How many lines from the end can be asked for."""
LONGEST: Final = 2000
"""Characters of one line that are shown."""


@dataclass(frozen=True, slots=True)
class JobLog:
    """The lines of one job."""

    title: str
    lines: list[str]


def log_values(run: KnownRun, benchmark: KnownBenchmark, source: str, lines: int) -> dict[str, Any]:
    """Everything that the template needs. Raises `NoSuchPageError` where there is no such log here."""
    known = benchmark.evidence
    files = LocalRunFiles()
    sources = list(logs.sources(known, files)) if known is not None else []
    if known is None or not sources:
        raise NoSuchPageError(f"No log of {benchmark.name} is here; the run is {run.where}.")
    source = source or logs.to_show(known, files)
    if source not in sources:
        raise NoSuchPageError(
            f"{benchmark.name} has no log '{source[:100]}'; there are {', '.join(sources)}."
        )
    parts: list[JobLog] = []
    left = lines
    for piece in reversed(logs.pieces(known, source, files)):
        text = logs.tail([piece], files, left).decode("utf-8", "replace")
        found = text.splitlines()
        parts.append(JobLog(piece.title, found))
        left -= len(found)
        if left <= 0:
            break
    parts.reverse()
    return {
        "run": run,
        "benchmark": benchmark,
        "source": source,
        "sources": sources,
        "parts_of_log": parts,
        "lines": lines,
        "choices": LINES,
        "longest": LONGEST,
        "path": log_path(run, benchmark),
    }


def log_path(run: KnownRun, benchmark: KnownBenchmark) -> str:
    """The address of the log."""
    return f"/evaluations/{run.run_id}/{benchmark.name}/log"
