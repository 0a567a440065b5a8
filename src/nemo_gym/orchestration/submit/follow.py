"""Following jobs to their end: what the executor sees and what the collectors say of their progress.

On a terminal one line per job is redrawn in place; anywhere else a line is printed when a job's state
changes, and otherwise rarely. Following changes nothing: who stops following leaves the jobs as they are.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobExecutor, JobRef
from nemo_gym.orchestration.status import chain_head
from nemo_runs.clock import SecondsClock, SystemClock
from nemo_runs.durations import duration_in_words
from nemo_slurm.reasons import read_reason

_LOOK = 0.5
_LINE_EVERY = 10.0
"""Least seconds between two lines about one job in one state, when the output is not a terminal."""


def follow(
    executor: JobExecutor,
    jobs: Mapping[str, JobRef],
    folders: Mapping[str, Path] | None = None,
    *,
    stream: TextIO,
    clock: SecondsClock | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, JobObservation]:
    """Show the jobs, by benchmark, on ``stream`` until all have ended; returns how each ended.

    ``folders`` are those of the benchmarks, where they are not the jobs'.
    `KeyboardInterrupt` ends the following alone; the jobs go on, and the stream says so.
    """
    clock = clock or SystemClock()
    folders = folders or {benchmark: job.job_dir for benchmark, job in jobs.items()}
    display = _Redrawn(stream) if stream.isatty() else _Lines(stream)
    try:
        while True:
            seen = chain_head.observe(executor, list(jobs.values()))
            state = {
                benchmark: seen[job.job_id]
                if folders[benchmark] == job.job_dir
                else chain_head.of_benchmark(folders[benchmark], seen[job.job_id])
                for benchmark, job in jobs.items()
            }
            width = max(map(len, jobs), default=0)
            lines = {
                benchmark: line(
                    benchmark.ljust(width), state[benchmark], progress(folders[benchmark]), clock.seconds()
                )
                for benchmark in jobs
            }
            display.show(lines, state, clock.monotonic())
            if all(observation.state.final for observation in state.values()):
                return state
            sleep(_LOOK)
    except KeyboardInterrupt:
        print(
            "\nThe jobs go on without being followed; `gym job results` reports them.",
            file=stream,
            flush=True,
        )
        raise


def line(benchmark: str, seen: JobObservation, report: Mapping[str, Any], now: float) -> str:
    """One job in one line: name, state, progress or reason."""
    parts = [benchmark, "ended with 0" if _lacks_rows(seen, report) else seen.state.lower()]
    if seen.state is JobState.RUNNING and seen.started_at is not None:
        parts.append(f"for {duration_in_words(now - seen.started_at)}")
    parts += _measures(report, running=seen.state is JobState.RUNNING)
    reason = read_reason(seen.reason).text if seen.state is JobState.QUEUED else seen.reason
    if reason:
        parts.append(f"({' '.join(reason.split())})")
    return "  ".join(parts)


def _lacks_rows(seen: JobObservation, report: Mapping[str, Any]) -> bool:
    """Whether a job ended with 0 and rows are missing: that is not a success by itself."""
    done, expected = report.get("done"), report.get("expected")
    if not isinstance(done, int) or not isinstance(expected, int):
        return False
    return seen.state is JobState.SUCCEEDED and done < expected


def progress(job_dir: Path) -> dict[str, Any]:
    """What the job's collector last said, empty before it has said anything."""
    try:
        report = json.loads(JobPaths(job_dir).rollouts.progress.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return report if isinstance(report, dict) else {}


def _measures(report: Mapping[str, Any], *, running: bool) -> list[str]:
    expected, done = report.get("expected"), report.get("done")
    if not isinstance(expected, int) or not isinstance(done, int):
        return []
    parts = [f"{done}/{expected}"]
    if report.get("mean_reward") is not None:
        parts.append(f"mean reward {report['mean_reward']:.1%}")
    if report.get("failed"):
        parts.append(f"{report['failed']} failed attempts")
    if running and report.get("eta_s") is not None:
        parts.append(f"{duration_in_words(report['eta_s'])} left")
    if running and report.get("rollouts_per_s"):  # last: a narrow terminal cuts it first
        parts.append(f"{report['rollouts_per_s']:.1f}/s")
    return parts


class _Lines:
    """For a log: what is new, and not often."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: dict[str, tuple[JobState, str, float]] = {}

    def show(self, lines: Mapping[str, str], state: Mapping[str, JobObservation], now: float) -> None:
        for benchmark, text in lines.items():
            current = state[benchmark].state
            before = self._shown.get(benchmark)
            changed = before is None or before[0] is not current
            if changed or (before is not None and text != before[1] and now - before[2] >= _LINE_EVERY):
                print(text, file=self._stream, flush=True)
                self._shown[benchmark] = (current, text, now)


class _Redrawn:
    """For a terminal: one line per job, redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = 0

    def show(self, lines: Mapping[str, str], _state: Mapping[str, JobObservation], _now: float) -> None:
        size = _terminal_size(self._stream)
        shown = list(lines.values())[: max(1, size.lines - 1)]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        rows = "".join(f"\r\x1b[2K{text[: size.columns - 1]}\n" for text in shown)
        self._stream.write(up + rows)
        self._stream.flush()
        self._drawn = len(shown)


def _terminal_size(stream: TextIO) -> os.terminal_size:
    try:
        return os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return shutil.get_terminal_size()
