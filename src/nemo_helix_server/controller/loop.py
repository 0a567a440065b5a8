"""The controller: one thread that observes, decides and acts; nobody else starts or ends anything.

It sleeps until somebody asks for something, a run changes, or a deadline comes; every so often it looks
anyway, for what nobody said. Being killed at any moment is fine: all that it knows is in the store, in the
folders of the runs, and in the processes themselves.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller import decide
from nemo_helix_server.controller.background_tasks import BackgroundTasks
from nemo_helix_server.controller.continuation import ContinuationBudget
from nemo_helix_server.controller.effects import DecidedStep, Effects
from nemo_helix_server.controller.error_isolation import ErrorIsolation
from nemo_helix_server.controller.expired_storage import RetentionWindows
from nemo_helix_server.controller.facts import FactFinder
from nemo_helix_server.controller.launches import Launches
from nemo_helix_server.controller.progress_ingestion import ProgressIngestion
from nemo_helix_server.controller.reclaims import Reclaims
from nemo_helix_server.controller.reuse import Reuse
from nemo_helix_server.controller.starts import Starter
from nemo_helix_server.controller.step_ages import StepAges
from nemo_helix_server.controller.supervision.executor_problems import ExecutorProblems
from nemo_helix_server.controller.supervision.pass_watch import PassWatch
from nemo_helix_server.controller.supervision.start_threads import StartThreads
from nemo_helix_server.errors import UnavailableError
from nemo_helix_server.executors.base import RunObservation
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.jobs import ports, states
from nemo_helix_server.jobs.model import StepContext
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.record_mirror import RecordMirror
from nemo_helix_server.store.queries import StepQuery
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore
from nemo_runs.processes.daemon_threads import DaemonThreads

_LOG = logging.getLogger(__name__)
_NEW, _QUEUED = 256, 64
"""So many steps that wait are looked at in one pass, oldest first."""
_PASS_GAP = 0.02
"""Seconds between two passes, so that what happens together is handled together."""
_WINDOWS_EVERY, _WINDOWS_BETWEEN = 30.0, 0.3
"""Seconds between two looks at the storage windows, at most and at least."""
_MEASURE_EVERY = 60.0
_SETTLING_EVENTS = frozenset(
    {
        StatusEvent.FAILED,
        StatusEvent.STOPPED,
        StatusEvent.CHECKPOINT_VERIFIED,
        StatusEvent.PAUSE_DEADLINE_MISSED,
        StatusEvent.CREATION_FAILED,
    }
)
"""Events after which a storage window may run."""
_LIVE = frozenset(status for status in Status if status.holds_workload or status is Status.CREATION_PENDING)
_FOLLOWED = frozenset(status for status in Status if status.reports_progress)


@dataclass(slots=True)
class Controller:
    """See `build`; `start` runs it in a thread, `run_once` is one pass, for tests."""

    store: JobStore
    executor: Executors
    storage: JobStorage
    settings: Settings
    starter: Starter
    effects: Effects
    finder: FactFinder
    progress_ingestion: ProgressIngestion
    windows: RetentionWindows
    background: BackgroundTasks
    changed: Callable[[], None]
    """Called after a pass that has changed something, for the code that shows it to others."""
    error_isolation: ErrorIsolation
    watch: PassWatch
    problems_of_runs: ExecutorProblems
    _threads: DaemonThreads
    _event: int = field(default_factory=lambda: os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
    _thread: threading.Thread | None = None
    _stopping: bool = False
    _problem: str | None = None
    _windows_due: float = 0.0
    _windows_earliest: float = 0.0
    _measure_due: float = 0.0
    _running: dict[str, str] = field(default_factory=dict)
    """The jobs that ran when sizes were looked at last, and their workspaces."""

    def start(self) -> None:
        """Begin; what runs already is taken over, what is half done is finished."""
        self.background.start()
        self.watch.start()
        self._thread = threading.Thread(target=self._loop, name="controller", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End; workloads go on."""
        self._stopping = True
        self.wake()
        if self._thread is not None:
            self._thread.join(timeout)
        self.watch.stop()
        self.starter.threads.stop(timeout)
        self.background.stop(timeout)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def wake(self) -> None:
        """Somebody asked for something; returns at once."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.eventfd_write(self._event, 1)

    def problems(self) -> Sequence[str]:
        """What is wrong with the controller, a sentence each."""
        if self._thread is not None and not self._thread.is_alive() and not self._stopping:
            return ["the controller has ended; restart the service"]
        found = [self._problem, self.watch.problem(), *self.executor.problems()]
        found += [*self.error_isolation.sentences(), *self.background.error_isolation.sentences()]
        return list(dict.fromkeys(filter(None, found)))

    def run_once(self) -> float:
        """One pass; the seconds until the next is due at the latest."""
        now = self.store.clock.monotonic()
        self.error_isolation.begin()
        with self.store.read() as unit:
            live = _live(unit)
            waiting = _waiting(unit)
        self.starter.threads.begin_pass()
        seen = self._observe(live)
        self.problems_of_runs.observed(seen)
        tasks, deadline = self._decide(live, seen, now)
        moved = self.effects.move(tasks)
        moves = [task.decision for task in tasks if isinstance(task.decision, decide.Move)]
        for task in tasks:
            if not isinstance(task.decision, decide.Move):
                self.effects.act(task)
        started = self.starter.admit(waiting) if waiting or moved or self.starter.between else 0
        self.starter.settle()
        noted = self.problems_of_runs.note(live)
        followed = self.progress_ingestion.look(
            [context for context in live if context.step.status in _FOLLOWED and context.step.pausable],
            self.store.clock.monotonic(),
        )
        deadline = min(deadline, self._ends_of_windows(), self.starter.next_due)
        self._measure(live)
        self.background.wake()
        if moved or started or followed or noted:
            self.changed()
        if any(move.event in _SETTLING_EVENTS for move in moves):
            self._windows_due = 0.0
        if moved or started or any(isinstance(task.decision, decide.Stop) for task in tasks):
            return _PASS_GAP
        interval = self.settings.jobs.reconcile_interval_seconds
        if not live and not waiting:
            interval = max(interval, self.settings.jobs.schedule_interval_seconds)
        return max(_PASS_GAP, min(interval, deadline - self.store.clock.monotonic()))

    def _loop(self) -> None:
        begun = False
        while not self._stopping:
            self.watch.begin()
            try:
                if not begun:
                    self._take_over()
                    begun = True
                pause = self.run_once()
                self._problem = None
            except UnavailableError as error:
                if str(error) != self._problem:
                    _LOG.error("%s", error)
                self._problem = str(error)
                pause = 1.0
            except BaseException as error:  # noqa: BLE001 - the outermost edge of the thread: the next pass tries again
                _LOG.exception("a pass of the controller failed and is tried again")
                self._problem = f"the controller's last pass failed: {type(error).__name__}: {error}"
                pause = 1.0
            self.watch.end()
            self._sleep(pause)

    def _take_over(self) -> None:
        """What the service before this one has left."""
        self.executor.warm()
        self.starter.find_open_chains()
        self.background.reclaims.find()

    def _sleep(self, seconds: float) -> None:
        time.sleep(_PASS_GAP)
        poll = select.poll()
        for descriptor in (self._event, *self.executor.descriptors()):
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, seconds - _PASS_GAP) * 1000)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
            self._windows_due = 0.0  # what was asked for may have begun, changed or ended a window
        self.executor.drain()

    def _observe(self, live: Sequence[StepContext]) -> Mapping[str, RunObservation]:
        return self.executor.observe(
            [run for context in live if (run := self.finder.run(context)) is not None]
        )

    def _decide(
        self, live: Sequence[StepContext], seen: Mapping[str, RunObservation], now: float
    ) -> tuple[list[DecidedStep], float]:
        tasks, deadline = [], float("inf")
        self.finder.ages.keep_only([context.step for context in live])
        for context in live:
            observation = seen.get(context.step.task or "")
            with self.error_isolation.apart(context.job_name):
                facts = self.finder.facts(context, observation)
                limits = self._limits(context)
                decision = decide.decide(facts, observation, now, limits)
                if decision is not None:
                    tasks.append(DecidedStep(context, observation, decision))
                due = decide.next_deadline(facts, limits)
                if due is not None and due > now:
                    deadline = min(deadline, due + _PASS_GAP)
        return tasks, deadline

    def _limits(self, context: StepContext) -> decide.ControllerDeadlines:
        profile = self.starter.launches.settings(context)
        return decide.ControllerDeadlines(
            before_active=profile.ttl_seconds_before_active,
            creation=self.settings.jobs.creation_deadline_seconds,
            cancel=self.settings.jobs.cancel_deadline_seconds,
            grace=profile.graceful_shutdown_timeout_seconds,
            continuation=self._budget(context),
        )

    def _budget(self, context: StepContext) -> ContinuationBudget:
        """Of the settings, where the step's lifecycle does not say otherwise."""
        given, own = self.settings.jobs.continuation, context.step.spec.get("lifecycle") or {}
        count, seconds = own.get("max_continuations"), own.get("max_walltime_seconds")
        return ContinuationBudget(
            continuations=given.max_continuations if count is None else int(count),
            seconds=given.max_walltime_seconds if seconds is None else float(seconds),
            without_checkpoint=self.settings.jobs.max_interruptions_without_progress,
            first_wait=given.first_wait_seconds,
            longest_wait=given.longest_wait_seconds,
        )

    def _ends_of_windows(self) -> float:
        """End the windows that are due; when the next one is, on the monotonic clock."""
        now = self.store.clock.monotonic()
        if now >= max(self._windows_due, self._windows_earliest):
            left = self.windows.run()
            self._windows_due = now + min(_WINDOWS_EVERY if left is None else left, _WINDOWS_EVERY)
            # where very many jobs are settled, looking at them takes at most a twentieth of the time
            took = self.store.clock.monotonic() - now
            self._windows_earliest = now + max(_WINDOWS_BETWEEN, 20 * took)
        return max(self._windows_due, self._windows_earliest)

    def _measure(self, live: Sequence[StepContext]) -> None:
        """What runs is measured now and then, and once more when it has settled."""
        now = self.store.clock.monotonic()
        running = {context.step.job_id: context.workspace for context in live}
        wanted = {job: place for job, place in self._running.items() if job not in running}
        if now >= self._measure_due:
            self._measure_due = now + _MEASURE_EVERY
            wanted |= running
        for job, workspace in wanted.items():
            self.background.measure(workspace, job)
        self._running = running


def build(
    *,
    store: JobStore,
    executor: Executors,
    storage: JobStorage,
    launches: Launches,
    settings: Settings,
    limits: ports.StorageLimits,
    changed: Callable[[], None] = lambda: None,
    start_threads: StartThreads | None = None,
) -> Controller:
    """Put a controller together; ``changed`` is called after each pass that has changed something.

    ``start_threads`` make the starts; unset = in threads of their own, which wake the controller.
    """
    threads = DaemonThreads(2, "verification")
    finder = FactFinder(storage, executor, settings.jobs.storage.minimum_free_bytes, StepAges(store.clock))
    error_isolation = ErrorIsolation()
    progress_ingestion = ProgressIngestion(store, executor, error_isolation)
    reuse = Reuse(store, executor, threads, wake=lambda: controller.wake())  # noqa: PLW0108 - made below
    starting = start_threads or StartThreads(wake=lambda: controller.wake())  # noqa: PLW0108 - made below
    problems = ExecutorProblems(store)
    reclaims = Reclaims(store, storage, executor)
    starter = Starter(
        store, executor, launches, finder, reuse, error_isolation, starting, problems, reclaims.is_removing
    )
    controller = Controller(
        store=store,
        executor=executor,
        storage=storage,
        settings=settings,
        starter=starter,
        effects=Effects(store, executor, starter, finder, progress_ingestion, error_isolation, problems),
        finder=finder,
        progress_ingestion=progress_ingestion,
        windows=RetentionWindows(store, reclaims, limits, error_isolation),
        background=BackgroundTasks(
            store,
            storage,
            executor,
            RecordMirror(store, storage),
            reclaims,
            deleted=changed,
            error_isolation=ErrorIsolation(store.clock.monotonic),
        ),
        changed=changed,
        error_isolation=error_isolation,
        watch=PassWatch(store.clock.monotonic, executor.slow),
        problems_of_runs=problems,
        _threads=threads,
    )
    return controller


def _live(unit: StoreReader) -> tuple[StepContext, ...]:
    """Steps that may have a workload, or whose job is being made."""
    return unit.steps.contexts(StepQuery(statuses=_LIVE)).items


def _waiting(unit: StoreReader) -> list[StepContext]:
    """Steps that wait for their turn, in no order that matters."""
    new = unit.steps.contexts(StepQuery(statuses=states.origins(StatusEvent.DEFERRED), limit=_NEW)).items
    queued = unit.steps.contexts(StepQuery(statuses=frozenset({Status.QUEUED}), limit=_QUEUED)).items
    return [*queued, *new]
