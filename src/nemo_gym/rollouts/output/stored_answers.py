"""Reading an output back: its answers for another grading, and its graded rollouts in order."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import orjson

from nemo_gym.errors import DataError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output import framing, rows
from nemo_gym.rollouts.output.result_rows import AGENT_FIELDS, OURS, Answer, verdict_of_row
from nemo_gym.types import GradedRollout, Row
from nemo_runs.durable import disk, files


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored answer, and its place."""

    where: str
    """File and line."""
    identity: tuple[int, int]
    row: Row
    answer: Answer
    graded: bool


class StoredAnswers:
    """The answers of one output, in the order of its rows; those without a grade come last."""

    def __init__(self, paths: RolloutPaths, num_repeats: int) -> None:
        self._paths = paths
        self._num_repeats = num_repeats

    def read(self) -> Iterator[Stored]:
        """Every answer once. Raises `DataError` with file and line for a row that is damaged or has none."""
        seen: set[tuple[int, int]] | None = set() if self._paths.answers.is_file() else None
        for path, graded in ((self._paths.output, True), (self._paths.answers, False)):
            if not graded and not path.is_file():
                return
            for number, line, identity in framing.read_rows(path):
                where = f"{path}:{number}"
                if identity is None:
                    raise DataError(
                        f"{where}: a damaged row; `gym eval run --resume` puts it aside "
                        "and collects it again."
                    )
                if seen is not None:
                    if not graded and identity in seen:
                        continue  # its result was recorded
                    seen.add(identity)
                row = rows.decode_row(line)
                if not isinstance(row.get("response"), dict):
                    raise DataError(f"{where}: the row has no response, so there is no answer to grade.")
                yield Stored(where, identity, row, self.answer(identity, row), graded)

    def answer(self, identity: tuple[int, int], row: Row) -> Answer:
        """The answer that a row of the results or of the stored answers holds."""
        if AGENT_FIELDS in row:
            return Answer.of_row(row)
        lost = self._source & OURS  # an earlier version wrote its own values over these of the data's
        return Answer.of_row(row, self._inputs.row(*identity) if lost else None, self._source)

    @cached_property
    def _source(self) -> frozenset[str]:
        """The keys of the data's rows, as far as the first one has them."""
        return frozenset(self._inputs.row(0, 0))

    @cached_property
    def _inputs(self) -> _Inputs:
        return _Inputs(self._paths.materialized_inputs, self._num_repeats)


class GradedRollouts(Iterable[GradedRollout]):
    """The recorded rollouts of an output in the order of task and repeat, read from the disk one at a time.

    ``wanted`` has one byte a rollout, zero where it is left out. Eight bytes of memory each.
    """

    def __init__(self, paths: RolloutPaths, num_repeats: int, wanted: Sequence[int]) -> None:
        self._answers = StoredAnswers(paths, num_repeats)
        self._output = paths.output
        self._num_repeats = num_repeats
        self._wanted = wanted
        self._lines = array("q", [-1]) * len(wanted)
        self._find_lines()

    def __iter__(self) -> Iterator[GradedRollout]:
        return (found for of_task in self.by_task() for found in of_task)

    def __len__(self) -> int:
        return sum(start >= 0 for start in self._lines)

    def by_task(self) -> Iterator[list[GradedRollout]]:
        """The rollouts of each task that has any, in the order of the tasks."""
        if len(self):
            with open(self._output, "rb", opener=disk.regular) as file:
                for first in range(0, len(self._lines), self._num_repeats):
                    places = range(first, first + self._num_repeats)
                    found = [self._read(file, at) for at in places if self._lines[at] >= 0]
                    if found:
                        yield found

    def _find_lines(self) -> None:
        try:
            file = open(self._output, "rb", opener=disk.regular)  # noqa: SIM115 - closed below
        except FileNotFoundError:
            return
        with file:
            start = 0
            for line in file:
                for _, (task_index, repeat) in framing.whole_rows(line.rstrip(b"\n"))[0]:
                    at = task_index * self._num_repeats + repeat
                    planned = repeat < self._num_repeats and at < len(self._lines)
                    if planned and self._lines[at] < 0 and self._wanted[at]:
                        self._lines[at] = start
                start += len(line)

    def _read(self, file: IO[bytes], at: int) -> GradedRollout:
        identity = divmod(at, self._num_repeats)
        file.seek(self._lines[at])
        rows_there, _ = framing.whole_rows(file.readline().rstrip(b"\n"))
        row = rows.decode_row(next(line for line, found in rows_there if found == identity))
        if not isinstance(row.get("response"), dict):
            row["response"] = {}
        answer = self._answers.answer(identity, row)
        return GradedRollout(answer.to_task(*identity), answer.to_episode(), verdict_of_row(row))


class _Inputs:
    """The materialized rows, by identity; eight bytes of memory each."""

    def __init__(self, path: Path, num_repeats: int) -> None:
        self._path = path
        self._num_repeats = num_repeats
        self._starts: array[int] | None = None

    def row(self, task_index: int, rollout_index: int) -> Row:
        """One row; empty where the file has none for it."""
        if (task_index, rollout_index) == (0, 0) and self._starts is None:
            return self._parsed(next(self._lines(), b"{}"))
        if self._starts is None:
            self._starts = array("q", [0])
            for line in self._lines():
                self._starts.append(self._starts[-1] + len(line) + 1)
        at = task_index * self._num_repeats + rollout_index
        if at + 1 >= len(self._starts):
            return {}
        with open(self._path, "rb", opener=disk.regular) as file:
            file.seek(self._starts[at])
            return self._parsed(file.readline())

    def _lines(self) -> Iterator[bytes]:
        try:
            yield from files.read_lines(self._path)
        except FileNotFoundError:
            return

    def _parsed(self, line: bytes) -> Row:
        try:
            row = orjson.loads(line)
        except ValueError:
            return {}
        return row if isinstance(row, dict) else {}
