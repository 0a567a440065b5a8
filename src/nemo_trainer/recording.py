"""What a training says about itself: appended metrics, replaced progress."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from nemo_runs.durable.files import RowAppender, repair_tail
from nemo_runs.errors import DiskFullError
from nemo_trainer import taking_over
from nemo_trainer.contract import (
    ContinueRow,
    JobContext,
    MetricRow,
    TrainerError,
    list_checkpoints,
    write_progress,
)
from nemo_trainer.contract.generations import Generation
from nemo_trainer.contract.progress import FINAL_STEP, PASSED_OVER, SEQ_SEEN, STOPS_AT

_BETWEEN = 0.5
"""Seconds between two writes of the progress that differ only in numbers."""


class _ProgressFile:
    """The progress on the disk. A rename can take milliseconds where a machine is busy, which is long beside
    a step, so a thread does the writes for which nobody waits."""

    def __init__(self, context: JobContext) -> None:
        self._path = context.paths.progress
        self._lock = threading.Lock()
        self._given = self._written = 0
        self._waiting: queue.SimpleQueue[tuple[int, Mapping[str, Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def soon(self, fields: Mapping[str, Any]) -> None:
        """Write it without keeping the caller."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="progress", daemon=True)
            self._thread.start()
        self._given += 1
        self._waiting.put((self._given, fields))

    def now(self, fields: Mapping[str, Any], *, durable: bool) -> None:
        """Write it; what waits to be written is older, and is left out."""
        self._given += 1
        self._write(self._given, fields, durable=durable)

    def close(self) -> None:
        """Write what waits."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (order := self._waiting.get()) is not None:
            self._write(*order, durable=False)

    def _write(self, number: int, fields: Mapping[str, Any], *, durable: bool) -> None:
        with self._lock:
            if number <= self._written:
                return
            self._written = number
            try:
                write_progress(self._path, fields, durable=durable)
            except (OSError, DiskFullError) as error:
                if durable:
                    raise TrainerError(f"the last progress could not be written: {error}") from error
                sys.stderr.write(f"the progress could not be written: {error}\n")


class Recorder:
    """Writes ``metrics.jsonl`` and ``progress.json``; every other rank has one that writes nothing."""

    def __init__(
        self,
        context: JobContext,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        """``clock`` gives the dates that are written down, ``monotonic`` says when to write.

        ``fence`` is called before each write, and raises when this process must not write any more.
        """
        self.latest: dict[str, float] = {}
        """The last value of every metric."""
        self._context = context
        self._clock = clock
        self._monotonic = monotonic
        self._fence = fence
        self._rows: RowAppender | None = None
        self._begun = False
        self._file = _ProgressFile(context)
        self._written_at: float | None = None
        self._fields: dict[str, Any] = {
            "phase": "starting",
            "step": 0,
            SEQ_SEEN: None,
            STOPS_AT: None,
            PASSED_OVER: [],
            "attempt": context.attempt,
            "task": context.task,
            "generation": context.generation,
        }

    def continue_from(self, step: int, after: Generation | None = None) -> None:
        """Say that training goes on after a step; nothing is said when no step was ever recorded.

        ``after`` is the generation that this one follows, see `nemo_trainer.taking_over.predecessor`.
        """
        self._fields["step"] = step
        if not self._context.writes:
            return
        self._fence()
        context = self._context
        row = ContinueRow(step, context.attempt, context.task, self._clock(), context.generation)
        begun = taking_over.begin(context, step, row, self._fence, after=after, at=row.time)
        if not begun and (step or (context.paths.metrics.exists() and context.paths.metrics.stat().st_size)):
            self._append(row.to_line())
            self.sync()
        self._begun = True

    def begin(self) -> None:
        """Take over from earlier generations where nothing was said of going on from a checkpoint."""
        if self._context.writes and self._context.own_names and not self._begun:
            after = taking_over.predecessor(self._context)
            step = max((one.step for one in list_checkpoints(self._context.trainer_path)), default=0)
            taking_over.begin(self._context, step, None, self._fence, after=after, at=self._clock())
            self._begun = True

    def metrics(self, step: int, values: Mapping[str, float], epoch: float | None) -> None:
        """Append a row unless none of the values is a finite number."""
        context = self._context
        row = MetricRow(step, self._clock(), context.attempt, values, epoch, context.generation).finite()
        self._fields["step"] = max(step, self._fields["step"])
        if row.values:
            self.latest |= row.values
            self.begin()
            self._append(row.to_line())

    def progress(self, fields: Mapping[str, Any], *, now: bool = False) -> None:
        """Merge fields and write them, at most twice a second unless ``now`` or the phase has changed."""
        now = now or fields.get("phase", self._fields["phase"]) != self._fields["phase"]
        self._fields |= fields
        step, most = self._fields["step"], self._fields.get("max_steps")
        if most and "percentage_done" not in fields:
            self._fields["percentage_done"] = round(100 * min(step, most) / most, 2)
        moment = self._monotonic()
        if now or self._written_at is None or moment - self._written_at >= _BETWEEN:
            self._written_at = moment
            self._write(soon=not now)

    def final(self, fields: Mapping[str, Any], step: int) -> None:
        """The last entry: on the disk when this returns."""
        self.sync()
        self._fields |= {**fields, "step": step, FINAL_STEP: step}
        self._write(durable=True)

    def sync(self) -> None:
        """Make every row so far durable."""
        if self._rows is not None:
            self._rows.sync()

    def close(self) -> None:
        """Make every row durable and close the files."""
        self._file.close()
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def _append(self, line: bytes) -> None:
        if not self._context.writes:
            return
        self._fence()
        if self._rows is None:
            torn = repair_tail(self._context.paths.metrics)
            if torn is not None:
                sys.stderr.write(
                    f"{torn.path}: {torn.size} bytes of an unfinished row are kept in {torn.aside}\n"
                )
            self._rows = RowAppender(self._context.paths.metrics)
        try:
            self._rows.append(line)
        except OSError:
            self._fence()  # who takes over may have removed the file
            raise

    def _write(self, *, soon: bool = False, durable: bool = False) -> None:
        if not self._context.writes:
            return
        self._fence()
        fields = {**self._fields, "updated_at": self._clock()}
        if soon:
            self._file.soon(fields)
        else:
            self._file.now(fields, durable=durable)
