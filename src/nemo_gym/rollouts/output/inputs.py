"""The materialized inputs: every planned rollout, one row each, written once before the first request."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError, ResumeRefusedError
from nemo_gym.rollouts.output.rows import ROLLOUT_INDEX, TASK_INDEX, decode_row, read_blocks
from nemo_gym.types import Task
from nemo_runs.counts import counted
from nemo_runs.durable import disk, files

_TOGETHER: Final = 256
"""Rows that are digested and written at once."""


def write_inputs(
    path: Path,
    rows: Iterable[bytes],
    *,
    expected: int,
    sha256: str | None,
    beat: Callable[[], None],
) -> dict[str, Any]:
    """Write all rows durably, whole or not at all, and describe the file as the manifest keeps it.

    Raises `DataError` when the number of rows is not ``expected``, and `ResumeRefusedError`, leaving the old
    file, when a digest is demanded by ``sha256`` and the rows have another one.
    """
    with disk.temporary_beside(path) as temporary, disk.full_disk_named(path):
        with temporary.open("xb", buffering=disk.CHUNK) as file:
            count, digest = _copy(rows, file.write, beat)
            file.flush()
            os.fsync(file.fileno())
        if count != expected:
            raise DataError(
                f"{path}: {counted(expected, 'row is', 'rows are')} planned, but the data set gave {count:,}."
            )
        if sha256 is not None and digest != sha256:
            raise ResumeRefusedError(
                f"{path}: it is missing or damaged, and the inputs made again differ from those that the "
                "recorded rows were collected with; restore it, choose another --output, or add "
                "+allow_unsafe_resume=true."
            )
        temporary.replace(path)
    files.sync_folder(path.parent)
    found = path.stat()
    return {"sha256": digest, "size": found.st_size, "rows": count, "mtime_ns": found.st_mtime_ns}


def holding(
    rows: Iterable[bytes],
    *,
    num_repeats: int,
    known: tuple[int, int],
    sha256: object,
    path: Path,
) -> Iterator[bytes]:
    """The rows of a plan with ``num_repeats``, among which must be those of a smaller one as they were.

    The smaller plan has ``known`` tasks and repeats, and its rows the digest ``sha256``. Raises
    `ResumeRefusedError` behind the last row where theirs is another one.
    """
    tasks, repeats = known
    summed = hashlib.sha256()
    for position, row in enumerate(rows):
        if position // num_repeats < tasks and position % num_repeats < repeats:
            summed.update(row + b"\n")
        yield row
    if summed.hexdigest() != sha256:
        raise ResumeRefusedError(
            f"{path}: the inputs made for more tasks or repeats do not hold those that the recorded rows "
            "were collected with; choose another --output, or add +allow_unsafe_resume=true."
        )


def inputs_intact(path: Path, known: dict[str, Any], beat: Callable[[], None]) -> bool:
    """Whether the file is the one that the manifest describes.

    Same size and same modification time are believed; after a copy of the folder the digest is taken.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if found.st_size != known.get("size"):
        return False
    if found.st_mtime_ns == known.get("mtime_ns"):
        return True
    summed = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(disk.CHUNK):
            summed.update(block)
            beat()
    return summed.hexdigest() == known.get("sha256")


def read_tasks(path: Path, num_repeats: int, wanted: bytes) -> Iterator[Task]:
    """Stream in order the rollouts whose byte in ``wanted`` is 1; blocks without one are not even split.

    Memory stays near one block. Raises `DataError` naming file and line when a row is not the one that
    belongs there, or the file ends too early.
    """
    following = wanted.find(1)
    position = 0
    for block in read_blocks(path) if following >= 0 else ():
        lines = block.count(b"\n") + 1
        if following < position + lines:
            rows = block.split(b"\n")
            while 0 <= following < position + lines:
                yield _task(path, following, num_repeats, rows[following - position])
                following = wanted.find(1, following + 1)
            if following < 0:
                return
        position += lines
    if following >= 0:
        raise DataError(
            f"{path}: it ends after {position:,} of {counted(len(wanted), 'row')}; resume to make it again."
        )


class PlannedTasks:
    """Planned rollouts by their position, in any order; eight bytes of memory a rollout."""

    def __init__(self, path: Path, num_repeats: int) -> None:
        self._path = path
        self._num_repeats = num_repeats
        self._file = path.open("rb")
        self._offsets = array("Q", [0])
        for line in self._file:
            self._offsets.append(self._offsets[-1] + len(line))

    def at(self, position: int) -> Task:
        """The rollout ``task_index * num_repeats + rollout_index``; `DataError` as of `read_tasks`."""
        if position >= len(self._offsets) - 1:
            rows = counted(len(self._offsets) - 1, "row")
            raise DataError(f"{self._path}: it ends after {rows}; resume to make it again.")
        self._file.seek(self._offsets[position])
        length = self._offsets[position + 1] - self._offsets[position]
        return _task(self._path, position, self._num_repeats, self._file.read(length).rstrip(b"\n"))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _copy(rows: Iterable[bytes], write: Callable[[bytes], int], beat: Callable[[], None]) -> tuple[int, str]:
    summed = hashlib.sha256()
    count, rest = 0, iter(rows)
    while batch := list(islice(rest, _TOGETHER)):
        block = b"\n".join(batch) + b"\n"
        if block.count(b"\n") != len(batch):
            number = next(number for number, row in enumerate(batch, start=count + 1) if b"\n" in row)
            raise DataError(f"materialized row {number} holds a line break outside of a string.")
        summed.update(block)
        write(block)
        count += len(batch)
        beat()
    return count, summed.hexdigest()


def _task(path: Path, position: int, num_repeats: int, line: bytes) -> Task:
    task_index, rollout_index = divmod(position, num_repeats)
    try:
        row = decode_row(line)
    except DataError as error:
        raise DataError(f"{path}:{position + 1}: {error}.") from error
    if row.get(TASK_INDEX) != task_index or row.get(ROLLOUT_INDEX) != rollout_index:
        raise DataError(
            f"{path}:{position + 1}: task {task_index}, rollout {rollout_index} belongs here, "
            f"found {row.get(TASK_INDEX)!r}, {row.get(ROLLOUT_INDEX)!r}."
        )
    return Task(task_index, rollout_index, row)
