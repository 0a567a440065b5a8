"""What the training of a step has written, wherever that lies: what is asked of it, and on this machine."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from nemo_runs.durable.disk import open_regular
from nemo_trainer import contract
from nemo_trainer.contract import generations

_TAIL = 1 << 16
_FROM_THE_BEGINNING = contract.ContinueRow(0, "", "", 0.0)


@dataclass(frozen=True, slots=True)
class SeenCheckpoint:
    """A checkpoint folder as it is now."""

    step: int
    id: str
    """Empty when its manifest cannot be read."""
    size: int
    """Bytes of all its files together."""
    manifest: contract.Manifest | None
    problem: str | None
    """What is wrong with it, a sentence; `None`: its files are all there, sizes compared.

    Never `None` without a manifest."""


class TrainerMarks(NamedTuple):
    """What is something else whenever one of these has changed; `None` where it is not there."""

    progress: Hashable
    metrics: Hashable


class MetricRows(NamedTuple):
    """Rows of a file of metrics."""

    rows: Sequence[contract.Row]
    start: int
    """Where they begin: behind the offset that was asked for, or 0 when the file is another one by now."""
    behind: int
    """Just behind them, where to go on; the same as ``start`` when there are none yet."""
    generation: int = 0
    """The one whose own file it is, see `nemo_trainer.contract.generations`; 0: the file of all."""


class TrainerFiles(Protocol):
    """The trainer path of a step, read where it is: metrics, progress, checkpoints, outputs.

    Damage raises nothing: what cannot be read is not there, or has a problem. A storage that is asked over a
    network answers from what it saw last, or raises `OSError` when it knows nothing yet.
    """

    @property
    def where(self) -> str:
        """The trainer path as messages name it."""
        ...

    def marks(self) -> TrainerMarks:
        """What shows whether there is a new sign of life; costs next to nothing."""
        ...

    def checkpoints_mark(self) -> Hashable:
        """What is something else whenever a checkpoint came, went or was replaced; false without any."""
        ...

    def progress(self) -> dict[str, Any]:
        """What ``progress.json`` says; empty without one."""
        ...

    def metrics(self, offset: int, *, generation: int = 0) -> MetricRows:
        """The next rows behind an offset of a generation's file, of about 1 MiB at most.

        The file of a later generation begins with the same rows, up to where it took over; where more was
        read than that, everything is read again, behind a row that says so.
        """
        ...

    def last_recorded_step(self) -> int:
        """The training step of the last row of metrics; 0: there is none."""
        ...

    def checkpoints(self) -> Sequence[SeenCheckpoint]:
        """Every checkpoint folder, oldest step first."""
        ...

    def output_problems(self, *, deep: bool) -> Sequence[str] | None:
        """What is wrong with the outputs that the step says it has produced; `None`: it says nothing.

        ``deep``: every byte is read, for its digest.
        """
        ...


class LocalTrainerFiles:
    """A trainer path on this machine; see `TrainerFiles`. No link that leads out of ``storage`` counts."""

    def __init__(self, path: Path, storage: Path) -> None:
        self._path = path
        self._storage = storage
        self._names = contract.TrainerPaths(path)

    @property
    def where(self) -> str:
        """See the protocol."""
        return str(self._path)

    def marks(self) -> TrainerMarks:
        """See the protocol."""
        progress, metrics = map(generations.newest_file, (self._names.progress, self._names.metrics))
        return TrainerMarks(_mark(progress), _mark(metrics))

    def checkpoints_mark(self) -> Hashable:
        """See the protocol."""
        found = _folders_mark(self._names.checkpoints)
        return found and (found, tuple(generations.limits(self._path, within=self._storage)))

    def progress(self) -> dict[str, Any]:
        """See the protocol."""
        return dict(contract.read_progress(self._names.progress, within=self._storage))

    def metrics(self, offset: int, *, generation: int = 0) -> MetricRows:
        """See the protocol."""
        path = generations.newest_file(self._names.metrics)
        now, again = generations.own_number(path.stem), False
        if offset and now != generation:
            same = generations.same_bytes(self._path, generation, now, within=self._storage)
            again = same is None or offset > same
        try:
            if again or path.stat().st_size < offset:
                offset = 0
        except OSError:
            return MetricRows((), offset, offset, now)
        rows, behind = contract.MetricTail(path, offset, self._storage).read(1 << 20)
        return MetricRows([_FROM_THE_BEGINNING, *rows] if again else rows, offset, behind, now)

    def last_recorded_step(self) -> int:
        """See the protocol."""
        try:
            newest = generations.newest_file(self._names.metrics)
            with open(open_regular(newest, within=self._storage), "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
                lines = file.read(_TAIL).split(b"\n")
        except OSError:
            return 0
        for line in reversed(lines):
            row = contract.parse_row(line) if line else None
            if row is not None:
                return row.continue_from if isinstance(row, contract.ContinueRow) else row.step
        return 0

    def checkpoints(self) -> list[SeenCheckpoint]:
        """See the protocol."""
        return [self._seen(one) for one in contract.list_checkpoints(self._path, within=self._storage)]

    def output_problems(self, *, deep: bool) -> Sequence[str] | None:
        """See the protocol."""
        if not generations.newest_file(self._names.outputs).exists():
            return None
        return contract.verify_outputs(self._path, storage=self._storage, deep=deep)

    def _seen(self, found: contract.Checkpoint | contract.Damaged) -> SeenCheckpoint:
        if isinstance(found, contract.Damaged):
            return SeenCheckpoint(found.step, "", 0, None, found.problem)
        problems = contract.verify(found.folder, deep=False, within=self._storage)
        problem = problems[0] if problems else None
        return SeenCheckpoint(found.step, found.id, found.size, found.manifest, problem)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _folders_mark(folder: Path) -> tuple[tuple[str, float], ...]:
    """What changes when a checkpoint comes, goes or is replaced."""
    try:
        return tuple(
            sorted(
                (entry.name, (entry / contract.MANIFEST).stat().st_mtime)
                for entry in folder.iterdir()
                if (entry / contract.MANIFEST).exists()
            )
        )
    except OSError:
        return ()
