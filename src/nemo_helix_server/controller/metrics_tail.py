"""What trainers write down, brought into the store: metrics once each, and how far training

is. A file of metrics only grows. Its offset and the points read up to there are stored in one unit, so that a
service that was away for an hour, or was killed in between, neither loses a point nor stores one twice.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from nemo_helix_server.jobs.model import MetricPoint, WritersStart
from nemo_helix_server.storage.trainer_files import TrainerFiles
from nemo_trainer import contract

_DEEPEST = 32


class SeriesSink(Protocol):
    """Where a tail is written, see `nemo_helix_server.store.metric_series.SeriesWriter`."""

    def add(self, job_id: str, step_name: str, points: Iterable[MetricPoint]) -> None:
        """Add to the series of a step."""
        ...

    def truncate(self, job_id: str, step_name: str, after: int) -> None:
        """Drop what lies beyond a training step."""
        ...

    def set_tail(self, job_id: str, name: str, offset: int) -> None:
        """Record how far the file has been read."""
        ...

    def continued(self, job_id: str, step_name: str, at: WritersStart) -> None:
        """Record where the newest writer went on."""
        ...


@dataclass(frozen=True, slots=True)
class MetricsPiece:
    """Rows of one file of metrics that are not in the store yet."""

    job_id: str
    step_name: str
    rows: tuple[contract.Row, ...]
    offset: int
    """Just behind them."""
    generation: int = 0
    """The one whose own file it is; 0: the file that generations share."""

    def write(self, series: SeriesSink) -> None:
        """Store the points and the offset."""
        pending: list[MetricPoint] = []
        for row in self.rows:
            if isinstance(row, contract.ContinueRow):
                series.add(self.job_id, self.step_name, pending)
                pending = []
                series.truncate(self.job_id, self.step_name, row.continue_from)
                if row.task:  # the row that stands for "everything is read again" has none
                    at = WritersStart(row.continue_from, row.generation)
                    series.continued(self.job_id, self.step_name, at)
            else:
                pending += _points(row)
        series.add(self.job_id, self.step_name, pending)
        series.set_tail(self.job_id, tail_name(self.step_name), self.offset)
        if self.generation:
            series.set_tail(self.job_id, file_name(self.step_name), self.generation)


def tail_name(step_name: str) -> str:
    """What the store calls the file of a step."""
    return f"{step_name}/metrics.jsonl"


def file_name(step_name: str) -> str:
    """What the store calls the number of the generation to whose file of metrics the offset belongs."""
    return f"{step_name}/metrics.generation"


def pieces(
    job_id: str, step_name: str, trainer: TrainerFiles, offset: int, read: int = 0
) -> Iterator[MetricsPiece]:
    """What a step's metrics say behind an offset, in pieces of bearable size.

    ``read`` is the generation to whose file the offset belongs. A file that is shorter than was read before
    is another file, and read from its beginning.
    """
    while True:
        rows, start, behind, now = trainer.metrics(offset, generation=read)
        if behind == start:
            return
        yield MetricsPiece(job_id, step_name, tuple(rows), behind, now)
        offset, read = behind, now


class TrainingProgress:
    """How far trainings are; says something only when it has changed."""

    def __init__(self) -> None:
        self._seen: dict[str, Hashable] = {}

    def changed(self, token: str, trainer: TrainerFiles) -> dict[str, Any] | None:
        """What ``progress.json`` says, when it was replaced since it was last asked for this start."""
        mark = trainer.marks().progress
        if mark is None or self._seen.get(token) == mark:
            return None
        self._seen[token] = mark
        return cleaned(trainer.progress()) or None

    def forget(self, token: str) -> None:
        """The start has ended."""
        self._seen.pop(token, None)


def cleaned(value: Any, depth: int = 0) -> Any:
    """What a workload wrote, as JSON that every database and every client can take.

    Numbers that are none, or of more than 64 bits, and what is nested very deeply, become null.
    """
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        return {_text(name): cleaned(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [cleaned(inner, depth + 1) for inner in value]
    return _text(value) if isinstance(value, str) else value if _is_number_or_less(value) else None


def _is_number_or_less(value: Any) -> bool:
    return math.isfinite(value) if isinstance(value, float) else value is None or abs(value) < 1 << 63


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def _points(row: contract.MetricRow) -> list[MetricPoint]:
    return [
        MetricPoint(step=row.step, epoch=row.epoch, name=_text(name), value=value)
        for name, value in row.values.items()
    ]
