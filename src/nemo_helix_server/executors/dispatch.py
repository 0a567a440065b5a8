"""Several executors in one service: what is asked about a run goes to the executor that has it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from nemo_helix_server import executor_kinds
from nemo_helix_server.executor_kinds import UnknownExecutorError
from nemo_helix_server.executors import options
from nemo_helix_server.executors.base import (
    Admitted,
    CapacityRequest,
    ExecutorKind,
    Launch,
    NeverPossibleError,
    RunObservation,
    RunPlace,
    RunState,
    Software,
    StepExecutor,
    WaitingForCapacity,
)
from nemo_helix_server.settings import ProfileSettings, Settings
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import LocalRunStorage, RunStorage

_LOG = logging.getLogger(__name__)


class Executors:
    """The executors of a service, as one; see `nemo_helix_server.executors.base.StepExecutor`.

    Each is opened when it is first needed, so runs of a profile that is gone are still looked after. What one
    of them cannot do keeps no other from its work.
    """

    def __init__(self, opened: Callable[[str], StepExecutor], default: str, data_dir: Path) -> None:
        """``opened`` makes the executor of a name, and may raise `UnknownExecutorError`.

        ``data_dir`` is the service's data directory.
        """
        self.data_directory: RunStorage = LocalRunStorage(JobStorage(data_dir))
        self._open = opened
        self._default = default
        self._known: dict[str, StepExecutor] = {}
        self._lock = threading.Lock()
        self._warm = False

    def named(self, name: str) -> StepExecutor:
        """The executor of a name, empty for the default one; raises `NeverPossibleError`."""
        name = name or self._default
        with self._lock:
            if name not in self._known:
                try:
                    self._known[name] = self._open(name)
                except UnknownExecutorError as error:
                    raise NeverPossibleError(str(error)) from error
                if self._warm:
                    options.warm(self._known[name])
            return self._known[name]

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See the protocol."""
        return options.admit(self._of(request.run), request)

    def require_possible(self, request: CapacityRequest) -> None:
        """See the protocol."""
        options.require_possible(self._of(request.run), request)

    def files(self, run: StepRun) -> RunStorage:
        """The storage that has the files of a run.

        Those of an executor that is not there any more are looked for in the service's data directory.
        """
        try:
            executor = self._of(run)
        except NeverPossibleError:
            return self.data_directory
        return options.files(executor, run, self.data_directory)

    def storages(self, runs: Iterable[StepRun]) -> list[RunStorage]:
        """Every storage that has files of these runs, each once; the service's data directory last.

        The others find in it what they have of a job.
        """
        found: list[RunStorage] = []
        for run in runs:
            if (files := self.files(run)) not in [*found, self.data_directory]:
                found.append(files)
        return [*found, self.data_directory]

    def place(self, run: StepRun, profile: ProfileSettings) -> RunPlace:
        """The place to run that a profile leads to."""
        return self.place_of(run.executor, profile)

    def place_of(self, executor: str, profile: ProfileSettings) -> RunPlace:
        """The same for an executor's name; raises `NeverPossibleError` when there is none of that name."""
        return options.place(self.named(executor), profile)

    def finds_software(self, run: StepRun) -> bool:
        """See `options.finds_software`."""
        return options.finds_software(self._of(run))

    def software(self, run: StepRun) -> Software | None:
        """See `base.FindsSoftware`."""
        try:
            return options.software(self._of(run), run)
        except NeverPossibleError:
            return None

    def release(self, run: StepRun) -> None:
        """See the protocol."""
        with contextlib.suppress(NeverPossibleError):  # an executor that is not there holds nothing
            options.release(self._of(run), run)

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol."""
        self._of(run).start(run, launch)

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol; nothing is known of the runs of an executor that fails."""
        by_executor: dict[str, list[StepRun]] = {}
        for run in runs:
            by_executor.setdefault(run.executor or self._default, []).append(run)
        seen: dict[str, RunObservation] = {}
        for name, those in by_executor.items():
            silent = RunObservation(RunState.UNKNOWN, reason=f"the executor {name} says nothing about it")
            seen |= dict.fromkeys((run.token for run in those), silent)
            try:
                seen |= self.named(name).observe(those)
            except Exception as error:  # noqa: BLE001 - it may come from another package, and others go on
                _LOG.warning("the executor %s cannot say what its runs do: %s", name, error)
                unknown = RunObservation(RunState.UNKNOWN, reason=f"{type(error).__name__}: {error}")
                seen |= dict.fromkeys((run.token for run in those), unknown)
        return seen

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._of(run).request_pause(run, seq=seq, by=by, at=at)

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._of(run).withdraw_pause(run, seq=seq, by=by, at=at)

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """See the protocol."""
        self._of(run).stop(run, grace_seconds=grace_seconds, stacks=stacks)

    def kill(self, run: StepRun) -> None:
        """See the protocol."""
        self._of(run).kill(run)

    def end_chain(self, run: StepRun) -> None:
        """See `base.Continues`."""
        with contextlib.suppress(NeverPossibleError):  # an executor that is not there starts nothing
            options.end_chain(self._of(run), run)

    def open_chains(self) -> list[StepRun]:
        """See `base.KnowsChains`: those of all executors that are open."""
        return [run for one in self._opened() for run in options.open_chains(one)]

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol."""
        return self._of(run).last_request(run)

    def descriptors(self) -> tuple[int, ...]:
        """See `base.Wakes`."""
        return tuple(number for one in self._opened() for number in options.descriptors(one))

    def drain(self) -> None:
        """Empty `descriptors`."""
        options.drain(self.descriptors())

    def warm(self) -> None:
        """See `base.Warms`; what is opened later is warmed then."""
        with self._lock:
            self._warm = True
            for one in self._known.values():
                options.warm(one)

    def close(self) -> None:
        """See the protocol."""
        for one in self._opened():
            one.close()

    def _of(self, run: StepRun) -> StepExecutor:
        return self.named(run.executor)

    def _opened(self) -> tuple[StepExecutor, ...]:
        with self._lock:
            return tuple(self._known.values())


def of_service(settings: Settings) -> Executors:
    """The executors of a service; those of its profiles are opened at once.

    Raises what they raise when they cannot be opened, so that the service does not start.
    """

    def opened(name: str) -> StepExecutor:
        kind: ExecutorKind = executor_kinds.load(name)
        return kind.open(settings)

    executors = Executors(opened, executor_kinds.DEFAULT, settings.data_dir)
    for name in dict.fromkeys([executor_kinds.DEFAULT, *(one.backend for one in settings.jobs.executors)]):
        executors.named(name)
    return executors
