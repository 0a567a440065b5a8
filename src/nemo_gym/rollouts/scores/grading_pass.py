"""One pass of grading over stored answers, in their order, several at a time where a judge is asked.

Grades that cost something are written to a journal as soon as they are there. A pass that was ended goes on
from it: what is graded is not asked for again. Its rows are those of the results, so each has a checksum.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Self

from nemo_gym.errors import DataError, GymError
from nemo_gym.rollouts.judges.models import counting_judges
from nemo_gym.rollouts.output import framing, rows
from nemo_gym.rollouts.output.failures import checked_reward, describe
from nemo_gym.rollouts.output.stored_answers import Stored, StoredAnswers
from nemo_gym.types import RolloutFailedError, Row, Verifier
from nemo_runs.durable import files


class GradingJournal:
    """Rows that were graded already, by what was answered; appended to until the pass is over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[tuple[int, int], int] = {}
        self._descriptor = -1
        self.kept = 0
        """Grades that it holds."""

    def __enter__(self) -> Self:
        if self.path.exists():
            files.repair_tail(self.path, whole=framing.is_whole)
            start = 0
            with self.path.open("rb") as file:
                for line in file:
                    identity = rows.check_line(line.rstrip(b"\n"))
                    if identity is not None:
                        self._lines[identity] = start
                    start += len(line)
        self.kept = len(self._lines)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o666)
        return self

    def __exit__(self, *_exc: object) -> None:
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        if not self.kept:
            self.path.unlink(missing_ok=True)

    def get(self, stored: Stored) -> Row | None:
        """The graded row of an answer, if this very answer was graded."""
        start = self._lines.get(stored.identity)
        if start is None:
            return None
        with self.path.open("rb") as file:
            file.seek(start)
            row = rows.decode_row(file.readline())
        return row if row.get("response") == stored.row["response"] else None

    def put(self, identity: tuple[int, int], row: Row) -> None:
        """Keep one graded row. Raises ``OSError`` when it does not fit; a torn one is repaired at the next
        start.
        """
        line = memoryview(rows.encode_row(*identity, row) + b"\n")
        while line:
            line = line[os.write(self._descriptor, line) :]
        self.kept += 1


async def grade_all(
    answers: StoredAnswers, verifier: Verifier, *, parallel: int = 1, journal: GradingJournal | None = None
) -> AsyncIterator[tuple[Stored, Row]]:
    """Every answer with its graded row, in order. Raises `DataError` with the place of one that cannot be
    graded; grades in flight are then waited for, and kept in the journal.
    """
    if parallel == 1 and journal is None:
        for stored in answers.read():
            yield stored, await _graded(stored, verifier)
        return
    flying: deque[tuple[Stored, asyncio.Task[Row]]] = deque()
    turns = asyncio.Semaphore(parallel)
    try:
        for stored, work in _started(answers.read(), verifier, turns, journal):
            flying.append((stored, asyncio.ensure_future(work)))
            while flying and (len(flying) > 4 * parallel or flying[0][1].done()):
                first, task = flying.popleft()
                yield first, await task
        while flying:
            first, task = flying.popleft()
            yield first, await task
    finally:
        await asyncio.gather(*(task for _, task in flying), return_exceptions=True)


def _started(
    answers: Iterator[Stored], verifier: Verifier, turns: asyncio.Semaphore, journal: GradingJournal | None
) -> Iterator[tuple[Stored, Awaitable[Row]]]:
    failed = asyncio.Event()

    async def grade(stored: Stored) -> Row:
        known = None if journal is None else journal.get(stored)
        if known is not None:
            return known
        async with turns:
            if failed.is_set():
                raise DataError(f"{stored.where}: not graded, since another answer could not be")
            try:
                row = await _graded(stored, verifier)
            except DataError:
                failed.set()
                raise
        if journal is not None:
            journal.put(stored.identity, row)
        return row

    return ((stored, grade(stored)) for stored in answers)


async def _graded(stored: Stored, verifier: Verifier) -> Row:
    answer = stored.answer
    try:
        task = answer.to_task(*stored.identity)
        _check(verifier, task.row)
        with counting_judges() as uses:
            verdict = await verifier.verify(task, answer.to_episode())
        spent = {name: use.to_json() for name, use in uses.items()}
        return answer.graded(verdict, checked_reward(verdict.reward), spent)
    except (GymError, RolloutFailedError) as error:
        raise DataError(f"{stored.where}: {error}") from error
    except Exception as error:  # foreign code: a verifier may raise anything
        failure = describe(error, "verifier", verifier)
        raise DataError(
            f"{stored.where}: the verifier failed: {failure.failure_type}: {failure.message}"
        ) from error


def _check(verifier: Verifier, row: Row) -> None:
    """Ask what a run asks before its first request: other options may need other fields."""
    if problem := verifier.check_row(row):
        raise DataError(f"the verifier cannot grade this row: {problem.rstrip('.')}.")
