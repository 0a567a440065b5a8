"""Progress of a collector: `progress.json`, a bar on a terminal, sparse lines anywhere else.

Nothing here runs once per rollout: the collector's tick calls `ProgressReport.tick` about twice a second.

``progress.json`` holds ``schema_version``, ``state`` (``running``, ``draining``, or how the run ended: see
`nemo_gym.rollouts.collect.ends.CollectionEnd.state`), ``expected``, ``done`` (results, those of earlier runs
included), ``new``, ``failed`` (failed attempts of this run), ``mean_reward`` (of this run's results),
``rollouts_per_s`` (over the last half minute), ``eta_s``, ``updated_at`` (UTC seconds), ``pid`` and
``mean_reward_all`` (of all results, those of earlier runs included). Of a run that may stop early ``until``
says what was decided, or how far that is; once it is decided, ``expected`` is what is recorded.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import orjson

from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

SCHEMA_VERSION = 1
FILE_EVERY = 1.0
"""Seconds between two replacements of ``progress.json``."""
LINE_EVERY = 5.0
"""Least seconds between two lines when the output is not a terminal."""
LINE_AT_LEAST_EVERY = 60.0
"""Seconds after which a line is printed although less than a percent has passed."""
_RATE_WINDOW = 30.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How far a run is."""

    expected: int
    done: int
    new: int
    failed: int
    reward_sum: float
    state: str = "running"
    reward_before: float = 0.0
    """Sum of the rewards of the results of earlier runs."""
    until: str | None = None
    """Of a run that may stop early: what was decided, or how far it is."""

    @property
    def mean_reward(self) -> float | None:
        """Over this run's results; ``None`` before the first."""
        return self.reward_sum / self.new if self.new else None

    @property
    def mean_reward_all(self) -> float | None:
        """Over all results, those of earlier runs included; ``None`` before the first."""
        return (self.reward_before + self.reward_sum) / self.done if self.done else None

    @property
    def percent(self) -> float:
        """Of what is expected."""
        return 100.0 * self.done / self.expected if self.expected else 100.0


class Display(Protocol):
    """Where a person sees progress."""

    def show(self, snapshot: Snapshot, rate: float, eta: float | None, now: float) -> None:
        """Show it, or leave it at what was shown last; ``now`` is monotonic seconds."""
        ...

    def report(self, message: str) -> None:
        """Print one line above or between."""
        ...

    def close(self) -> None:
        """Give the terminal back."""
        ...


class Rate:
    """Results per second over a sliding window."""

    def __init__(self, window: float = _RATE_WINDOW) -> None:
        self._window = window
        self._marks: deque[tuple[float, int]] = deque()

    def update(self, now: float, new: int) -> float:
        """The rate after a total of ``new`` results at monotonic second ``now``."""
        self._marks.append((now, new))
        while len(self._marks) > 2 and now - self._marks[0][0] > self._window:
            self._marks.popleft()
        start, before = self._marks[0]
        return (new - before) / (now - start) if now > start else 0.0


class ProgressReport:
    """Writes ``progress.json`` and feeds a display, both at their own pace."""

    def __init__(
        self, path: Path, display: Display, *, now_utc: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._path = path
        self._display = display
        self._now_utc = now_utc
        self._monotonic = monotonic
        self._rate = Rate()
        self._written = float("-inf")

    def tick(self, snapshot: Snapshot) -> None:
        """Update what is due."""
        now = self._monotonic()
        rate = self._rate.update(now, snapshot.new)
        eta = (snapshot.expected - snapshot.done) / rate if rate > 0 else None
        self._display.show(snapshot, rate, eta, now)
        if now - self._written >= FILE_EVERY:
            self._written = now
            self._write(snapshot, rate, eta)

    def finish(self, snapshot: Snapshot) -> None:
        """Write the final state whatever the pace, and give the terminal back."""
        rate = self._rate.update(self._monotonic(), snapshot.new)
        self._write(snapshot, rate, None)
        self._display.close()

    def _write(self, snapshot: Snapshot, rate: float, eta: float | None) -> None:
        """Replace the file by rename; not synced, for it is worth nothing after a crash of the machine."""
        data = orjson.dumps(
            {
                "schema_version": SCHEMA_VERSION,
                "state": snapshot.state,
                "expected": snapshot.expected,
                "done": snapshot.done,
                "new": snapshot.new,
                "failed": snapshot.failed,
                "mean_reward": snapshot.mean_reward,
                "rollouts_per_s": round(rate, 3),
                "eta_s": None if eta is None else round(eta, 1),
                "updated_at": round(self._now_utc(), 3),
                "pid": os.getpid(),
                "mean_reward_all": snapshot.mean_reward_all,
                **({} if snapshot.until is None else {"until": snapshot.until}),
            }
        )
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            fresh.write_bytes(data)
            fresh.replace(self._path)
        except OSError as error:  # results matter more: a full disk is reported where rows are written
            self._display.report(f"{self._path} cannot be written ({error.strerror}).")


class ProgressLines:
    """Sparse plain lines: at most one each `LINE_EVERY` seconds, and then only after another percent."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._last_at: float | None = None
        self._last_percent = 0

    def show(self, snapshot: Snapshot, rate: float, eta: float | None, now: float) -> None:
        """Print one line if it is time for one."""
        if self._last_at is None:
            self._last_at, self._last_percent = now, int(snapshot.percent)
            return
        waited = now - self._last_at
        moved = int(snapshot.percent) > self._last_percent
        if waited >= LINE_AT_LEAST_EVERY or (moved and waited >= LINE_EVERY):
            self._last_at, self._last_percent = now, int(snapshot.percent)
            self._write(progress_line(snapshot, rate, eta))

    def report(self, message: str) -> None:
        """Print one line."""
        self._write(message)

    def close(self) -> None:
        """Nothing to give back."""


class Bar:
    """A bar on a terminal, redrawn by the collector's tick and by nothing else."""

    def __init__(self, console: Console, expected: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._progress: Progress = Progress(
            TextColumn("rollouts"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[summary]}"),
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bar = self._progress.add_task("rollouts", total=expected, summary="")
        self._progress.start()

    def show(self, snapshot: Snapshot, rate: float, eta: float | None, now: float) -> None:  # noqa: ARG002 - always
        """Redraw."""
        self._progress.update(
            self._bar, completed=snapshot.done, summary=_summary(snapshot, rate, eta), refresh=True
        )

    def report(self, message: str) -> None:
        """Print one line above the bar."""
        self._progress.console.print(message, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()


def progress_line(snapshot: Snapshot, rate: float, eta: float | None) -> str:
    """One plain line."""
    done = f"{snapshot.done:,}/{counted(snapshot.expected, 'rollout')} ({snapshot.percent:.0f}%)"
    return f"{done}, {_summary(snapshot, rate, eta)}"


def _summary(snapshot: Snapshot, rate: float, eta: float | None) -> str:
    parts = [] if snapshot.mean_reward is None else [f"mean reward {snapshot.mean_reward:.1%}"]
    parts.append(f"{rate:.1f}/s" if rate < 100 else f"{rate:,.0f}/s")
    if snapshot.failed:
        parts.append(f"{snapshot.failed:,} failed attempts")
    if snapshot.state != "running":
        parts.append(snapshot.state)
    elif eta is not None and snapshot.done < snapshot.expected:
        parts.append(f"{duration_in_words(eta)} left")
    return ", ".join(parts)
