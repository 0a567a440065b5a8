"""Starting steps: in turn, with what they need, and at most once each."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller import continuation, failures
from nemo_helix_server.controller.error_isolation import ErrorIsolation
from nemo_helix_server.controller.facts import INTERRUPTED_TASK, FactFinder
from nemo_helix_server.controller.launches import LaunchError, Launches
from nemo_helix_server.controller.reuse import Reuse
from nemo_helix_server.controller.supervision.executor_problems import ExecutorProblems
from nemo_helix_server.controller.supervision.start_threads import StartThreads
from nemo_helix_server.executors.base import (
    Admitted,
    AlreadyStartedError,
    ExecutorError,
    NeverPossibleError,
    RunPlace,
    WaitingForCapacity,
)
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.jobs import identifiers, interruptions, stamps, states
from nemo_helix_server.jobs.advice import FailureKind
from nemo_helix_server.jobs.interruptions import ExpectedInterruptions
from nemo_helix_server.jobs.model import EXECUTOR, StepContext
from nemo_helix_server.jobs.stamps import GOES_ON
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.storage import run_lookup, start_remains
from nemo_helix_server.storage.run_files import StepRun, next_token
from nemo_helix_server.storage.run_storage import HandsOver, RunStorage
from nemo_helix_server.store.store import JobStore
from nemo_runs.clock import age
from nemo_runs.errors import RunsError

WHO = "controller"
_REMOVAL_LOOK = 1.0
"""Seconds until a job is looked at again whose earlier files are being removed."""
EXPECTED_INTERRUPTIONS = "expected_interruptions"
"""Key of a step's status details: what the newest start has to expect, and from what."""
_MAY_BE_GIVEN_UP = 5.0
"""Seconds after which a start may have been given up while it was under way."""
_KNOWN = ""
_WAITS_LONGER = "its last allocations brought no new checkpoint, so it waits a while"
_LOG = logging.getLogger(__name__)
StartError = LaunchError | NeverPossibleError


@dataclass(frozen=True, slots=True)
class _Turn:
    """A step whose turn has come."""

    context: StepContext
    run: StepRun
    devices: tuple[str, ...]
    digest: str | None
    image: str
    found_later: bool
    """Whether what it runs in is found out where it begins."""


@dataclass(slots=True)
class Starter:
    """Admits steps and starts them."""

    store: JobStore
    executor: Executors
    launches: Launches
    finder: FactFinder
    reuse: Reuse
    error_isolation: ErrorIsolation
    threads: StartThreads
    problems: ExecutorProblems
    is_removing: Callable[[str], bool] = lambda _job_id: False
    """Whether files of a job are being removed, which it had before it was to run again."""
    next_due: float = math.inf
    """When the wait of one that has lost its place again and again is over, on the monotonic clock."""
    between: dict[str, StepRun] = field(default_factory=dict)
    """The newest start of each step that is between two allocations, or was so at the last look."""
    _queue_places: dict[str, StepRun] = field(default_factory=dict)
    """The start of each waiting step to be: its place in the queue is under its token."""

    def admit(self, contexts: Sequence[StepContext]) -> int:
        """Start those whose turn has come, say of the others what they wait for; how many were started."""
        self.next_due = math.inf
        self._leave_queue(contexts)
        self.between |= {
            context.step.id: run_lookup.step_files(context)
            for context in contexts
            if GOES_ON in context.step.status_details and context.step.task is not None
        }
        self._end_chains()
        # in the order of their places in the queue: one that has to wait is not asked behind another
        contexts = sorted(contexts, key=lambda one: (self.launches.turn(one.step), one.step.id))
        turns, waiting, failed = [], [], []
        shortage = self.finder.disk_shortage()
        clock = self.store.clock
        blocked: dict[tuple[str, str, bool], str] = {}
        for context in contexts:
            with self.error_isolation.apart(context.job_name):
                if self.reuse.of(context):
                    continue
                if self.is_removing(context.step.job_id):
                    self.next_due = min(self.next_due, clock.monotonic() + _REMOVAL_LOOK)
                    continue
                details = context.step.status_details
                since = functools.partial(age, clock)
                if left := continuation.wait_left(details.get(continuation.ALLOCATIONS), since):
                    self.next_due = min(self.next_due, clock.monotonic() + left)
                    if context.step.status is not Status.QUEUED:
                        waiting.append((context, _WAITS_LONGER))
                    continue
                try:
                    answer = self._turn(context, shortage, blocked)
                except (LaunchError, NeverPossibleError) as error:
                    if not _has_run(context):
                        failed.append((context, error))
                        continue
                    answer = _waiting_reason(error)
                except ExecutorError as error:
                    answer = f"it is tried again: {error}"
                if isinstance(answer, _Turn):
                    turns.append(answer)
                else:
                    waiting.append((context, answer))
        self._record(waiting, failed)
        accepted = self._accept(turns)
        for turn in accepted:
            self.start(turn.context, turn.run, turn.devices)
        return len(accepted)

    def start(self, context: StepContext, run: StepRun, devices: tuple[str, ...] | None = None) -> None:
        """Begin to start an accepted step, unless that is under way; `settle` waits a moment for it.

        What fails now is tried again at the next look, or fails for good.
        """
        asked_at = self.store.clock.monotonic()

        def start() -> None:
            with self.error_isolation.apart(context.job_name):
                # it may have waited behind others that take long, and be given up or deleted meanwhile
                if self._may_start(run, context, asked_at):
                    self._start(context, run, devices)
                    if not self._may_start(run, context, asked_at):
                        self.executor.stop(run, grace_seconds=0)

        self.threads.begin(run.executor, run.token, start)

    def settle(self) -> None:
        """Wait a moment for the starts that this pass has begun."""
        self.threads.settle()

    def _may_start(self, run: StepRun, context: StepContext, asked_at: float) -> bool:
        """Whether a start is still wanted; a start that takes a moment only cannot be given up meanwhile."""
        if self.store.clock.monotonic() - asked_at < _MAY_BE_GIVEN_UP:
            return True
        with self.store.read() as unit:
            step = unit.steps.by_id(context.step.id)
        return step is not None and step.task == run.token and step.status.holds_workload

    def _start(self, context: StepContext, run: StepRun, devices: tuple[str, ...] | None) -> None:
        fresh = devices is not None
        try:
            if devices is None:
                answer = self.executor.admit(self.launches.request(context, run))
                if isinstance(answer, WaitingForCapacity):
                    return
                devices = answer.devices
            files, place = self.executor.files(run), self._place(context, run)
            self._take_over(context, files, run)
            files.prepare(run, self.launches.config(context, place))
            launch = self.launches.launch(
                context,
                run,
                devices=devices,
                checkpoint=self._checkpoint(context, run, files),
                paths=files.paths(run),
                place=place,
                interruptions=self._interruptions(context),
            )
            self.executor.start(run, launch)
        except AlreadyStartedError:
            _LOG.info("%s of %s was started before", run.token, context.job_name)
        except (LaunchError, NeverPossibleError) as error:
            with contextlib.suppress(ExecutorError):
                self.executor.stop(run, grace_seconds=0)
            self._fail([(context, error)])
        except (ExecutorError, RunsError, OSError) as error:
            self.problems.failed(context, run.token, "its start", error, accepted=fresh)
        else:
            self.problems.worked(run.token, "its start")

    def _interruptions(self, context: StepContext) -> ExpectedInterruptions | None:
        """What a training must expect of its place, which the step's details show."""
        if not context.step.pausable:
            return None
        given = self.launches.settings(context).seconds_between_interruptions
        place = self.launches.place_name(context)
        with self.store.write() as unit:
            found = interruptions.expected(place, given, unit.places.seen(place))
            shown = {EXPECTED_INTERRUPTIONS: found.to_json()}
            unit.steps.note(context.step.id, shown)
            unit.attempts.note(context.step.attempt_id, shown)
        return found

    def _take_over(self, context: StepContext, files: RunStorage, run: StepRun) -> None:
        """What earlier starts have left with another executor comes here, where every one finds it."""
        if not context.step.pausable:
            return
        with self.store.read() as unit:
            job = unit.jobs.by_id(context.step.job_id)
            runs = run_lookup.executors_of_job(unit, job) if job is not None else []
        for other in self.executor.storages(runs):
            if other is not files and isinstance(other, HandsOver):
                other.hand_over(run)

    def _turn(
        self, context: StepContext, shortage: str | None, blocked: dict[tuple[str, str, bool], str]
    ) -> _Turn | str:
        """The step's turn, or what it waits for."""
        if shortage is not None:
            return shortage
        if _has_run(context):
            self.launches.check(context)
        if context.step.id not in self._queue_places:
            executor = self.launches.executor(context.step.spec)
            run = run_lookup.new_run(context, _new_token(context), executor)
            self._queue_places[context.step.id] = run
        run = self._queue_places[context.step.id]
        request = self.launches.request(context, run)
        kind = (run.executor, context.workspace, request.devices > 0)
        if kind in blocked:
            # once it is known to wait, only the next one in the queue gets a new reason
            return _KNOWN if context.step.status is Status.QUEUED else blocked[kind]
        # what cannot be started is found before it takes anything
        turn = self._with_image(context, run)
        answer = self.executor.admit(request)
        if isinstance(answer, Admitted):
            return replace(turn, devices=answer.devices)
        # those after it have no better place, so the executor is not asked about them
        blocked[kind] = answer.reason
        return answer.reason

    def _with_image(self, context: StepContext, run: StepRun) -> _Turn:
        place = self._place(context, run)
        argv = self.launches.command(context, place)
        digest = place.environment_digest(argv, self.launches.environment(context, place))
        image = self.launches.image(context)
        if image and digest:
            digest = f"{image}@{digest}"
        program = argv[0] if argv else "its command"
        later = digest is None and self.executor.finds_software(run)
        return _Turn(context, run, (), digest, image or f"the environment of {program}", later)

    def _place(self, context: StepContext, run: StepRun) -> RunPlace:
        return self.executor.place(run, self.launches.settings(context))

    def _accept(self, turns: Sequence[_Turn]) -> list[_Turn]:
        """Record the tokens, before anything is started under them; in one unit for all."""
        if not turns:
            return []
        accepted = []
        with self.store.write() as unit:
            for turn in turns:
                step = turn.context.step
                moved = unit.statuses.move(
                    step.id,
                    StatusChange(
                        StatusEvent.ACCEPTED,
                        who=WHO,
                        why="its turn has come",
                        expected=step.status,
                        version=step.version,
                        task=turn.run.token,
                        details={EXECUTOR: turn.run.executor or None},
                    ),
                )
                if moved is not None:
                    if turn.found_later:
                        unit.steps.note(step.id, dict.fromkeys(stamps.IMAGE))
                    else:
                        unit.steps.note_image(step.id, turn.digest, turn.image)
                    accepted.append(turn)
        for turn in turns:
            self._queue_places.pop(turn.context.step.id, None)
            if turn not in accepted:
                self.executor.release(turn.run)
        return accepted

    def _record(
        self, waiting: Sequence[tuple[StepContext, str]], failed: Sequence[tuple[StepContext, StartError]]
    ) -> None:
        changed = [
            (context, _shown(context, reason))
            for context, reason in waiting
            if context.step.status is not Status.QUEUED
            or (reason != _KNOWN and _shown(context, reason) != context.step.status_details.get("message"))
        ]
        if changed:
            with self.store.write() as unit:
                for context, reason in changed:
                    step = context.step
                    if step.status is Status.QUEUED:
                        unit.steps.note(step.id, {"message": reason})
                        continue
                    unit.statuses.move(
                        step.id,
                        StatusChange(
                            StatusEvent.DEFERRED,
                            who=WHO,
                            why=reason,
                            expected=step.status,
                            version=step.version,
                            reason=StatusReason.WAITING_FOR_CAPACITY,
                            details={"message": reason},
                        ),
                    )
        self._fail(failed)

    def _fail(self, failed: Sequence[tuple[StepContext, StartError]]) -> None:
        if not failed:
            return
        clauses = [failures.rerun(context, self.finder.trainer(context)) for context, _ in failed]
        with self.store.write() as unit:
            for (context, error), again in zip(failed, clauses, strict=True):
                why = str(error)
                unit.statuses.move(
                    context.step.id,
                    StatusChange(
                        StatusEvent.FAILED,
                        who=WHO,
                        why=why,
                        reason=StatusReason.START_FAILED,
                        error=failures.explained(context, error.kind, why, again),
                    ),
                )

    def _checkpoint(self, context: StepContext, run: StepRun, files: RunStorage) -> str | None:
        """The checkpoint that a rerun was asked to start from, until the attempt has one of its own."""
        wanted, step = context.attempt_checkpoint, context.step
        if wanted is None or not step.pausable:
            return None
        if start_remains.has_own_checkpoint(files.trainer(run), step.attempt_id):
            return None
        with self.store.read() as unit:
            known = unit.checkpoints.find(step.job_id, wanted)
        if known is None or known.step_name != step.name:
            return None
        path = files.checkpoint_path(run, known)
        if path is None:
            raise LaunchError(
                f"the checkpoint {wanted} is neither in the job's storage nor pinned any more",
                kind=FailureKind.START_CHECKPOINT_GONE,
            )
        return path

    def find_open_chains(self) -> None:
        """End what may follow steps that are over: once, since a crash can keep that from being asked.

        A chain that the step's newest start goes on stays.
        """
        for run in self.executor.open_chains():
            with self.error_isolation.apart(f"{run.workspace}/{run.job_id}"):
                with self.store.read() as unit:
                    step = unit.steps.named(run.attempt_id, run.step)
                    tasks = {task.name for task in unit.tasks.of_step(step.id)} if step else set()
                if step is None or not _goes_on(run.token, step.task, tasks):
                    self.executor.end_chain(run)
                elif not step.status.holds_workload:
                    self.between[step.id] = run

    def _end_chains(self) -> None:
        """What a place has queued by itself must not follow a step that was paused or cancelled meanwhile."""
        for step_id, run in list(self.between.items()):
            with self.error_isolation.apart(f"{run.workspace}/{run.job_id}"):
                with self.store.read() as unit:
                    step = unit.steps.by_id(step_id)
                if step is not None and step.status in states.BETWEEN_ALLOCATIONS - {Status.PENDING}:
                    continue
                if step is None or step.status not in states.UNDISTURBED:
                    self.executor.end_chain(run)
                del self.between[step_id]

    def _leave_queue(self, contexts: Sequence[StepContext]) -> None:
        """Steps that wait no longer (they were paused or cancelled) leave the queue."""
        waiting = {context.step.id for context in contexts}
        for step_id in [known for known in self._queue_places if known not in waiting]:
            self.executor.release(self._queue_places.pop(step_id))


def _new_token(context: StepContext) -> str:
    """The name of the next start; one that goes on after an interruption may have been made there already."""
    last = context.step.task
    if last is not None and context.step.status_details.get(INTERRUPTED_TASK) == last:
        return next_token(last)
    return identifiers.task_name()


def _goes_on(token: str, newest: str | None, tasks: Collection[str]) -> bool:
    """Whether the newest start of a step is that one, or comes of it by nothing but lost places."""
    while token != newest and next_token(token) in tasks:
        token = next_token(token)
    return token == newest


def _shown(context: StepContext, reason: str) -> str:
    """What is shown of a step that waits: one that has lost its place says that first."""
    goes_on = context.step.status_details.get(GOES_ON)
    return f"{goes_on}: {reason}" if goes_on else reason


def _has_run(context: StepContext) -> bool:
    """Whether the step is to go on: then it waits until it can, so that nothing of it is given up."""
    return "resumed_at" in context.step.status_details


def _waiting_reason(error: Exception) -> str:
    return f"waits until it can go on here: {error}; to have it wait no more, pause it again or cancel it"
