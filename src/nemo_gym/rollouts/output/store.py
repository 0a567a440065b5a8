"""The durable files of one output: planned rollouts come out; answers, results, failures go in, a row each.

An answer without a grade leaves its file once its result is on the disk. What `OutputStore.answer`,
`OutputStore.record` and `OutputStore.fail` returned from survives the end of this process in any way, and the
end of the machine once `OutputStore.tick` has returned after it. There is one writer at a time: an output is
claimed when it is opened, and a process that was taken over from learns it at its next `OutputStore.tick`,
while its late rows land in a file that nobody reads (see `nemo_gym.rollouts.output.lock`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from nemo_gym.errors import ConfigError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output import framing, inputs, lock
from nemo_gym.rollouts.output.attempt_index import TERMINAL, AttemptIndex
from nemo_gym.rollouts.output.lock import SupersededError
from nemo_gym.rollouts.output.manifest import OutputManifest
from nemo_gym.rollouts.output.opening import OutputOpening, RequestedOutput
from nemo_gym.rollouts.output.rows import decode_row, encode_row
from nemo_gym.rollouts.output.stored_turns import StoredTurns
from nemo_gym.rollouts.run_config.identity import Identity
from nemo_gym.types import Row, Task
from nemo_runs.clock import SecondsClock
from nemo_runs.durable.files import RowAppender

__all__ = ["Opened", "OutputStore", "SupersededError"]

BODY_KEPT: Final = 2000
"""Characters of a failed response's body that go into its failure row."""

_BEAT: Final = 1.0
_WORTH_EMPTYING: Final = 1 << 22
"""Bytes of graded answers that are let lie."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What an output held when it was opened."""

    manifest: OutputManifest
    pending: int
    """Rollouts that are to be run."""
    recorded: int
    """Rollouts that have a result."""
    exhausted: int
    """Rollouts without a result that may not be tried again."""
    fresh: bool
    """Whether nothing was recorded yet, neither result nor failure."""
    repaired: list[str] = field(repr=False)
    """Sentences for stderr: what was damaged, where it is now."""
    attempts: bytearray = field(repr=False)
    """Counted failed attempts, one byte a rollout, kept up to date; 255 where another one would be useless.
    """
    done: bytearray = field(repr=False)
    """1 where a result is recorded, one byte a rollout, kept up to date."""


class OutputStore:
    """All files of one output, claimed by this process. Made by `open`, let go by `close`; for one thread."""

    def __init__(
        self, paths: RolloutPaths, opening: OutputOpening, *, max_attempts: int, clock: SecondsClock
    ) -> None:
        self.paths = paths
        self.manifest = opening.manifest
        self.new = 0
        """Results recorded by this process."""
        self.failed = 0
        """Failed attempts recorded by this process, counted or not."""
        self.exhausted = opening.attempt_index.exhausted(max_attempts)
        """Rollouts without a result that may not be tried again."""
        self.reward_before = opening.attempt_index.reward_sum
        """Sum of the rewards that earlier runs recorded."""
        self._attempt_index: AttemptIndex = opening.attempt_index
        self._claim = opening.claim
        self._max_attempts = max_attempts
        self._clock = clock
        self._beaten_at = clock.monotonic()
        self._closed = False
        self._gradings: dict[int, int] = {}
        """Failed gradings of this process by rollout."""
        self._stored = self._attempt_index.stored()
        self._ungraded = self._attempt_index.ungraded().count(1)
        self._results = RowAppender(paths.output, clock=clock.monotonic)
        self._failures = RowAppender(paths.failures, clock=clock.monotonic)
        self._answers = RowAppender(paths.answers, clock=clock.monotonic)
        self._turns = StoredTurns(paths.turns, self._attempt_index, clock.monotonic)
        self.opened = Opened(
            manifest=self.manifest,
            pending=self.remaining,
            recorded=self.recorded,
            exhausted=self.exhausted,
            fresh=not self.recorded and not any(self._attempt_index.failed),
            repaired=opening.said,
            attempts=self._attempt_index.attempts,
            done=self._attempt_index.done,
        )

    @classmethod
    def open(
        cls,
        paths: RolloutPaths,
        *,
        identity: Identity,
        rows: Callable[[], Iterator[bytes]],
        num_tasks: int,
        num_repeats: int,
        max_attempts: int,
        resume: bool,
        allow_unsafe: bool,
        link: Mapping[str, Any],
        clock: SecondsClock,
        first_sha256: str | None = None,
        unpublished: str | None = None,
    ) -> Self:
        """Claim an output and make it ready to be added to.

        ``rows`` gives the materialized inputs in order (line number = ``task_index * num_repeats +
        rollout_index``) and is called only when they have to be written. ``link`` goes into the manifest's
        list of starts; of it ``job_id``, ``restart``, ``chain``, ``gym_version`` and ``gym_commit`` are
        understood, the first three taken from ``NEMO_GYM_JOB_ID``, ``NEMO_GYM_RESTART`` and
        ``NEMO_GYM_CHAIN`` where they are absent. ``first_sha256`` is the digest of the data's first rows, as
        many as the manifest there plans: where it is the manifest's, more tasks of the same data are taken.
        ``unpublished`` says why the rows must not be published, and goes into the manifest.

        Raises `BusyError` when somebody else is at work on the output, `GymError` when it holds rollouts and
        ``resume`` is false, and `ResumeRefusedError` when they belong to something else and ``allow_unsafe``
        is false; what was recorded is left as it was.
        """
        if not 0 < max_attempts < TERMINAL:
            raise ConfigError(f"max_rollout_attempts: from 1 to {TERMINAL - 1}, found {max_attempts}.")
        paths.output.parent.mkdir(parents=True, exist_ok=True)
        claimant = lock.Claimant.of(link, os.environ)
        claim = lock.acquire(paths.lock, claimant, output=paths.output)
        with contextlib.ExitStack() as undo:
            undo.callback(claim.try_to_release)
            lock.sweep(paths.output.parent, claim.path)
            asked = RequestedOutput(
                identity, rows, num_tasks, num_repeats, resume, allow_unsafe, link, first_sha256, unpublished
            )
            opening = OutputOpening(paths, asked, claim, clock)
            opening.run()
            store = cls(paths, opening, max_attempts=max_attempts, clock=clock)
            undo.callback(store.close)
            store.refuse_if_superseded()
            undo.pop_all()
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def expected(self) -> int:
        """Rollouts that make the output complete."""
        return self.manifest.expected

    @property
    def recorded(self) -> int:
        """Rollouts that have a result, those of earlier runs among them."""
        return self._attempt_index.recorded

    @property
    def remaining(self) -> int:
        """Rollouts without a result that may still be tried."""
        return self.expected - self.recorded - self.exhausted

    @property
    def to_ask(self) -> int:
        """Rollouts that need an answer of the model."""
        return self._attempt_index.wanted(self._max_attempts, failed_only=False).count(1)

    @property
    def ungraded(self) -> int:
        """Stored answers that wait for their grade."""
        return self._ungraded

    @property
    def ungradable(self) -> int:
        """Those of them on which the verifier failed as often as it may in one process."""
        return sum(failed >= self._max_attempts for failed in self._gradings.values())

    @property
    def final(self) -> int:
        """Rollouts whose failure no other attempt could fix."""
        return self._attempt_index.final()

    def pending(self) -> Iterator[Task]:
        """Stream the rollouts to ask, in order: all that have neither result nor answer nor are exhausted."""
        return self._stream(failed_only=False)

    def retryable(self) -> Iterator[Task]:
        """Stream, in order, those of them that failed."""
        return self._stream(failed_only=True)

    def wanted(self, *, failed_only: bool) -> bytes:
        """1 for each rollout that `pending` or `retryable` would give now, at ``task_index * num_repeats +
        rollout_index``.
        """
        return self._attempt_index.wanted(self._max_attempts, failed_only=failed_only)

    def may_be_asked(self, task_index: int, rollout_index: int) -> bool:
        """Whether a rollout has neither result nor answer and is not exhausted."""
        index = task_index * self.manifest.num_repeats + rollout_index
        known = self._attempt_index
        return known.open(index, self._max_attempts) and not known.answered[index]

    def recorded_at(self, index: int) -> bool:
        """Whether the rollout at ``task_index * num_repeats + rollout_index`` has a result."""
        return bool(self._attempt_index.done[index])

    def settled(self, task_index: int) -> bool:
        """Whether each repeat of a task has its result, or may not be tried again."""
        first = task_index * self.manifest.num_repeats
        places = range(first, first + self.manifest.num_repeats)
        return not any(self._attempt_index.open(at, self._max_attempts) for at in places)

    def answered(self) -> Iterator[tuple[int, int, Row]]:
        """Stream the stored answers that wait for their grade: task index, rollout index, fields.

        Only those of now: what is stored while the stream is read is not part of it.
        """
        wanted = bytearray(self._attempt_index.ungraded())
        for index, failed in self._gradings.items():
            if failed >= self._max_attempts:
                wanted[index] = 0
        return self._read_answers(wanted)

    def turns(self, task: Task) -> Sequence[Row]:
        """What earlier attempts of a rollout without an answer have stored, oldest first."""
        return self._turns.of(self._index(task))

    def add_turn(self, task: Task, entry: Mapping[str, Any]) -> None:
        """Store a part of a rollout that goes on; raises as `record` does."""
        self._turns.add(self._index(task), task, entry)

    def answer(self, task: Task, fields: Mapping[str, Any]) -> None:
        """Store an answer that is about to be graded; raises as `record` does."""
        index = self._index(task)
        attempt_index = self._attempt_index
        if attempt_index.done[index] or attempt_index.answered[index]:
            return
        self._answers.append(encode_row(task.task_index, task.rollout_index, fields))
        self._turns.forget(index)
        was_open = attempt_index.open(index, self._max_attempts)
        attempt_index.answered[index] = 1
        self._stored += 1
        is_open = attempt_index.open(index, self._max_attempts)
        self._ungraded += is_open
        self.exhausted -= is_open and not was_open

    def record(self, task: Task, fields: Mapping[str, Any]) -> None:
        """Record a result. A second one for the same rollout is dropped: the first wins.

        Rollouts that had failed before carry the number of their failed attempts as ``_ng_attempt_index``.
        Raises `TypeError`, before anything is written, for fields that are nested without end, and
        `nemo_runs.errors.DiskFullError` when the row does not fit; the file then ends with a whole row.
        """
        index = self._index(task)
        attempt_index = self._attempt_index
        if attempt_index.done[index]:
            return
        attempts = attempt_index.attempts[index]
        if attempts:
            fields = {"_ng_attempt_index": attempts, **fields}
        self._results.append(encode_row(task.task_index, task.rollout_index, fields))
        self._turns.forget(index)
        was_open = attempt_index.open(index, self._max_attempts)
        if attempt_index.answered[index]:
            self._stored -= 1
            self._ungraded -= was_open
        attempt_index.done[index] = 1
        attempt_index.recorded += 1
        self.new += 1
        self._gradings.pop(index, None)
        if not was_open:
            self.exhausted -= 1

    def fail(
        self,
        task: Task,
        *,
        failure_class: str,
        failure_type: str,
        message: str,
        http_status: int | None = None,
        response_body: str | None = None,
        terminal: bool = False,
        counted: bool = True,
        ended_at: float | None = None,
        latency_ms: float | None = None,
    ) -> None:
        """Record a failed attempt. One that is ``terminal`` is the last; one not ``counted`` costs no
        attempt, and neither does a failed grading of a stored answer, which is kept for the next one.
        ``ended_at`` (UTC seconds) and ``latency_ms`` say when it was in flight.

        Raises `nemo_runs.errors.DiskFullError` when the row does not fit; the file then ends with a whole
        row.
        """
        index = self._index(task)
        attempt_index = self._attempt_index
        grading = bool(attempt_index.answered[index]) and not attempt_index.done[index]
        uses_up_grading = grading and counted
        counted = counted and not grading
        fields: dict[str, Any] = {
            "_ng_failure_class": failure_class,
            "_ng_failure_type": failure_type,
            "_ng_failure_message": message,
            "_ng_failure_http_status": http_status,
            "_ng_failure_response_body": response_body[:BODY_KEPT] if response_body is not None else None,
        }
        if terminal:
            fields["_ng_failure_terminal"] = True
        if not counted:
            fields["_ng_failure_counted"] = False
        if ended_at is not None and latency_ms is not None:
            fields["_ng_failure_at"] = round(ended_at, 3)
            fields["_ng_failure_latency_ms"] = round(latency_ms, 3)
        self._failures.append(encode_row(task.task_index, task.rollout_index, fields))
        was_open = attempt_index.open(index, self._max_attempts)
        attempt_index.add_failure(index, terminal=terminal, counted=counted)
        self.failed += 1
        if grading and was_open:
            self._gradings[index] = self._gradings.get(index, 0) + uses_up_grading
            if terminal:
                self._ungraded -= 1
                del self._gradings[index]
        if was_open and not attempt_index.open(index, self._max_attempts):
            self.exhausted += 1

    def tick(self) -> None:
        """Make rows durable and show that this process lives; to be called about once a second.

        Raises `SupersededError` when another collector has taken the output over: nothing that this process
        still does is counted, so it should end.
        """
        self._results.sync()
        self._failures.sync()
        self._answers.sync()
        self._turns.sync(worth_emptying=_WORTH_EMPTYING)
        self.refuse_if_superseded()
        if self._all_graded() and self._answers.offset >= _WORTH_EMPTYING:
            self._answers.empty()
        now = self._clock.monotonic()
        if now - self._beaten_at >= _BEAT:
            self._beaten_at = now
            self._claim.beat()

    def refuse_if_superseded(self) -> None:
        """Raise `SupersededError` if another collector owns the output now."""
        mine = (self._results, self._failures, self._answers, self._turns.appender)
        if self._claim.lost() or any(one is not None and one.superseded() for one in mine):
            raise lock.superseded(self.paths.output)

    def close(self) -> None:
        """Make rows durable and release the output; may be called again."""
        if self._closed:
            return
        self._closed = True
        with contextlib.ExitStack() as closing:
            closing.callback(self._claim.try_to_release)
            closing.callback(self._close_turns)
            closing.callback(self._answers.close)
            closing.callback(self._failures.close)
            self._results.close()
            if self._all_graded() and not self._claim.lost() and not self._answers.superseded():
                self.paths.answers.unlink(missing_ok=True)

    def _close_turns(self) -> None:
        """Close the file of turns, and remove it where nothing in it counts; answers are on the disk."""
        appender = self._turns.appender
        usable = appender is not None and not appender.superseded() and not self._claim.lost()
        self._turns.close()
        if usable:
            self._turns.remove_if_unused()

    def _all_graded(self) -> bool:
        """Whether each stored answer has its result; those are on the disk once they were synced."""
        return not self._stored

    def _read_answers(self, wanted: bytearray) -> Iterator[tuple[int, int, Row]]:
        for _, line, identity in framing.read_rows(self.paths.answers) if any(wanted) else ():
            index = None if identity is None else self._attempt_index.index(*identity)
            if identity is not None and index is not None and wanted[index]:
                wanted[index] = 0
                yield (*identity, decode_row(line))

    def _stream(self, *, failed_only: bool) -> Iterator[Task]:
        wanted = self._attempt_index.wanted(self._max_attempts, failed_only=failed_only)
        return inputs.read_tasks(self.paths.materialized_inputs, self.manifest.num_repeats, wanted)

    def _index(self, task: Task) -> int:
        index = self._attempt_index.index(task.task_index, task.rollout_index)
        if index is None:
            message = f"task {task.task_index}, rollout {task.rollout_index} is not planned here"
            raise IndexError(message)
        return index
