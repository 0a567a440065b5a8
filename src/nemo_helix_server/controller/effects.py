"""Carrying out decisions: calls to the executor, and writes to the store."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller import allocation_ends, decide, failures, metrics_tail
from nemo_helix_server.controller.continuation import ALLOCATIONS
from nemo_helix_server.controller.decide import Decision
from nemo_helix_server.controller.error_isolation import ErrorIsolation
from nemo_helix_server.controller.facts import INTERRUPTED_TASK, FactFinder
from nemo_helix_server.controller.progress_ingestion import ProgressIngestion
from nemo_helix_server.controller.starts import WHO, Starter
from nemo_helix_server.controller.supervision.executor_problems import ExecutorProblems
from nemo_helix_server.errors import UnavailableError
from nemo_helix_server.executors.base import ExecutorError, RunObservation, RunState
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.jobs.allocations import BEGUN, RECORD, AllocationRecord
from nemo_helix_server.jobs.model import Step, StepContext
from nemo_helix_server.jobs.stamps import GOES_ON
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.logs.tail import last_messages
from nemo_helix_server.storage import run_lookup
from nemo_helix_server.store.store import JobStore
from nemo_helix_server.store.writer import StoreWriter
from nemo_runs.clock import SECOND
from nemo_runs.errors import RunsError

_LOG = logging.getLogger(__name__)
_ASKED = {decide.Stop: "its end", decide.Kill: "its end", decide.RepeatControl: "a request to it"}
"""What a decision asks of an executor, for people."""


@dataclass(frozen=True, slots=True)
class DecidedStep:
    """A decision with what it is about."""

    context: StepContext
    seen: RunObservation | None
    decision: Decision


@dataclass(slots=True)
class Effects:
    """Carries out decisions; each is safe to be carried out again after a crash."""

    store: JobStore
    executor: Executors
    starter: Starter
    finder: FactFinder
    progress_ingestion: ProgressIngestion
    error_isolation: ErrorIsolation
    problems: ExecutorProblems

    def move(self, tasks: Sequence[DecidedStep]) -> int:
        """Write the transitions, all in one unit; how many happened."""
        prepared: list[_Prepared] = []
        for task in tasks:
            if isinstance(task.decision, decide.Move):
                with self.error_isolation.apart(task.context.job_name):
                    prepared.append(_Prepared(task, task.decision, self._before(task)))
        if not prepared:
            return 0
        happened = self._write_all(prepared)
        for task, move, _ in prepared:
            if move.event in _ENDS and (token := task.context.step.task):
                with self.error_isolation.apart(task.context.job_name):
                    self.finder.forget(token)
                    self.progress_ingestion.over(task.context)
                    run = run_lookup.step_files(task.context)
                    if move.event is StatusEvent.INTERRUPTED:
                        self.starter.between[task.context.step.id] = run
                    else:
                        self.executor.end_chain(run)
                    self.executor.files(run).drop_scratch(run)
        return happened

    def _write_all(self, prepared: Sequence[_Prepared]) -> int:
        try:
            with self.store.write() as unit:
                return sum(_write(unit, *one) for one in prepared)
        except UnavailableError:
            raise
        except Exception:  # noqa: BLE001 - one of them cannot be written: it is found out below
            _LOG.exception("transitions cannot be written together and are written one by one")
        happened = 0
        for task, move, records in prepared:
            with self.error_isolation.apart(task.context.job_name), self.store.write() as unit:
                # what the workload says of itself may be what cannot be written; how it ended can
                happened += _write(unit, task, move, _EndRecords((), None, records.failure, records.ended))
        return happened

    def act(self, task: DecidedStep) -> None:
        """Carry out one decision that is not a transition."""
        with self.error_isolation.apart(task.context.job_name):
            self._act(task)

    def _act(self, task: DecidedStep) -> None:
        run = self.finder.run(task.context)
        token, what = task.context.step.task or "", _ASKED.get(type(task.decision), "")
        try:
            match task.decision:
                case decide.Prepare():
                    self._prepare(task.context)
                case decide.Start() if run:
                    self.starter.start(task.context, run)
                case decide.Stop(grace=grace, stacks=stacks, fallback=fallback) if run:
                    self.problems.fell_back(task.context, token, fallback)
                    self.executor.stop(run, grace_seconds=grace, stacks=stacks)
                case decide.Kill(fallback=fallback) if run:
                    self.problems.fell_back(task.context, token, fallback)
                    self.executor.kill(run)
                case decide.NoteQueue(reason=reason):
                    with self.store.write() as unit:
                        unit.steps.note(task.context.step.id, {"queued_reason": reason})
                        unit.attempts.note(task.context.step.attempt_id, {"queued_reason": reason})
                case decide.RepeatControl(ask=ask) if run:
                    self._send_control(task.context, ask)
        except (ExecutorError, RunsError, OSError) as error:
            # it is decided again at the next look; the deadline of the status ends that
            self.problems.failed(task.context, token, what or "what is to be done", error)
        else:
            if what:
                self.problems.worked(token, what)

    def _send_control(self, context: StepContext, ask: decide.RequestControl) -> None:
        run = self.finder.run(context)
        assert run is not None
        seq = context.step.control_seq
        send = (
            self.executor.request_pause
            if ask is decide.RequestControl.PAUSE
            else self.executor.withdraw_pause
        )
        send(run, seq=seq, by=WHO, at=context.step.status_since / SECOND)
        self.finder.sent[run.token] = seq

    def _prepare(self, context: StepContext) -> None:
        self.finder.storage.prepare(context.workspace, context.step.job_id)
        with self.store.write() as unit:
            unit.statuses.move(
                context.step.id,
                StatusChange(
                    StatusEvent.PREPARED,
                    who=WHO,
                    why="its directories are made",
                    expected=Status.CREATION_PENDING,
                ),
            )

    def _before(self, task: DecidedStep) -> _EndRecords:
        """What has to be read from files before the unit in which a run's end is written."""
        assert isinstance(task.decision, decide.Move)
        run = self.finder.run(task.context)
        pieces: Sequence[metrics_tail.MetricsPiece] = ()
        progress = failure = ended = None
        if task.decision.event in _ENDS and run is not None:
            if task.seen is not None and task.seen.state is RunState.ABSENT:
                with contextlib.suppress(ExecutorError):
                    self.executor.kill(run)  # its record is gone; whatever of it may be left must not run on
            with self.error_isolation.apart(task.context.job_name):
                pieces = self.progress_ingestion.rest(task.context)
                progress = self.progress_ingestion.progress(task.context)
                self.progress_ingestion.catalogue(task.context)
                self.progress_ingestion.note_software(task.context)
            if task.seen is not None:
                with self.error_isolation.apart(task.context.job_name):
                    ended = self._ended(task.context, task.seen)
        if task.decision.failed:
            tail: Sequence[str] = ()
            if run is not None:
                with contextlib.suppress(OSError):
                    tail = last_messages(self.executor.files(run).log(run))
            trainer = self.finder.trainer(task.context)
            failure = failures.explain(task.decision, task.seen, run, task.context, trainer, tail)
        return _EndRecords(tuple(pieces), progress, failure, ended)

    def _ended(self, context: StepContext, seen: RunObservation) -> _EndedAllocation:
        trainer = self.finder.trainer(context) if context.step.pausable else None
        record = allocation_ends.record_of(context, seen, trainer)
        return _EndedAllocation(record, self.starter.launches.place_name(context))


@dataclass(frozen=True, slots=True)
class _EndRecords:
    pieces: tuple[metrics_tail.MetricsPiece, ...]
    progress: Mapping[str, Any] | None
    failure: failures.StepFailure | None
    ended: _EndedAllocation | None = None

    def for_the_task(self, unit: StoreWriter, step: Step) -> dict[str, Any] | None:
        """What became of the start, for the details of its task."""
        if self.ended is None:
            return None
        record = self.ended.record
        if step.pausable:
            begun = unit.series.writers_start(step.job_id, step.name).step
            record = replace(record, first_step=min(begun, record.last_step or 0))
        return {RECORD: record.to_json()}

    def count(self, unit: StoreWriter, step: Step) -> None:
        """Count what its place did to the start, of a step that can go on elsewhere or later."""
        if self.ended is not None and step.pausable and self.ended.record.seconds:
            record = self.ended.record
            unit.places.count(self.ended.place, seconds=record.seconds, interrupted=record.unannounced)


class _EndedAllocation(NamedTuple):
    record: AllocationRecord
    place: str


class _Prepared(NamedTuple):
    task: DecidedStep
    move: decide.Move
    records: _EndRecords


_ENDS = frozenset(
    {
        StatusEvent.FINISHED,
        StatusEvent.FAILED,
        StatusEvent.INTERRUPTED,
        StatusEvent.CHECKPOINT_VERIFIED,
        StatusEvent.PAUSE_DEADLINE_MISSED,
        StatusEvent.STOPPED,
    }
)


def _begun(task: DecidedStep) -> dict[str, Any] | None:
    """When a start that was seen to run had begun, for the details of its task."""
    if not isinstance(task.decision, decide.Move) or task.decision.event is not StatusEvent.STARTED:
        return None
    return {BEGUN: allocation_ends.record_of_begin(task.context, task.seen).to_json()} if task.seen else None


def _write(unit: StoreWriter, task: DecidedStep, move: decide.Move, records: _EndRecords) -> bool:
    step, failure = task.context.step, records.failure
    for piece in records.pieces:
        piece.write(unit.series)
    if records.progress and step.task:
        unit.tasks.move(step.id, step.task, step.status, who=WHO, details=records.progress)
    why = move.why
    if task.seen is not None and task.seen.fallback and not move.failed:
        why = f"{why}; {task.seen.fallback}"
    details: dict[str, Any] = {"message": why, "queued_reason": None}
    if move.event is StatusEvent.INTERRUPTED:
        details[INTERRUPTED_TASK] = step.task
    if move.history is not None:
        details[ALLOCATIONS] = move.history.to_json()
        if move.wait:
            since = {"since": unit.statuses.now, "mark": unit.statuses.mark}
            details[ALLOCATIONS] |= {"wait_seconds": move.wait, **since}
    if move.goes_on is not None:
        details |= {GOES_ON: move.goes_on, "message": move.goes_on}
    if task.seen is not None and task.seen.place:
        details["place"] = task.seen.place
    if task.seen is not None and task.seen.exit_status is not None:
        details["exit_code"] = task.seen.exit_status
    moved = unit.statuses.move(
        step.id,
        StatusChange(
            move.event,
            who=WHO,
            why=why,
            expected=step.status,
            version=step.version,
            reason=failure.reason if failure else move.reason,
            details=details,
            error=failure.error if failure else None,
            task_details=records.for_the_task(unit, step) or _begun(task),
        ),
    )
    if moved is not None:
        records.count(unit, step)
    noted = dict(failure.attempt_details) if failure else {}
    if "queued_reason" in step.status_details:
        noted["queued_reason"] = None
    if moved is not None and noted:
        unit.attempts.note(step.attempt_id, noted)
    return moved is not None
