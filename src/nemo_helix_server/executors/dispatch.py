"""Several executors in one service: what is asked about a run goes to the executor that has it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping

from nemo_helix_server import executor_kinds
from nemo_helix_server.executor_kinds import UnknownExecutorError
from nemo_helix_server.executors.base import (
    Admitted,
    CapacityRequest,
    ExecutorKind,
    Launch,
    NeverPossibleError,
    RunObservation,
    RunState,
    StepExecutor,
    WaitingForCapacity,
)
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage.run_files import StepRun

_LOG = logging.getLogger(__name__)


class Executors:
    """The executors of a service, as one; see `nemo_helix_server.executors.base.StepExecutor`.

    Each is opened when it is first needed, so runs of a profile that is gone are still looked after. What one
    of them cannot do keeps no other from its work.
    """

    def __init__(self, opened: Callable[[str], StepExecutor], default: str) -> None:
        """``opened`` makes the executor of a name, and may raise `UnknownExecutorError`."""
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
                    self._known[name].warm()
            return self._known[name]

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See the protocol."""
        return self._of(request.run).admit(request)

    def require_possible(self, request: CapacityRequest) -> None:
        """See the protocol."""
        self._of(request.run).require_possible(request)

    def base_environment(self, run: StepRun) -> Mapping[str, str]:
        """See the protocol."""
        return self._of(run).base_environment(run)

    def has_program(self, run: StepRun, argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:
        """See the protocol."""
        return self._of(run).has_program(run, argv, environment)

    def release(self, run: StepRun) -> None:
        """See the protocol."""
        with contextlib.suppress(NeverPossibleError):  # an executor that is not there holds nothing
            self._of(run).release(run)

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol."""
        self._of(run).start(run, launch)

    def find(self, run: StepRun) -> RunObservation | None:
        """See the protocol."""
        return self._of(run).find(run)

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

    def stop(self, run: StepRun, *, grace_seconds: float) -> None:
        """See the protocol."""
        self._of(run).stop(run, grace_seconds=grace_seconds)

    def kill(self, run: StepRun) -> None:
        """See the protocol."""
        self._of(run).kill(run)

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol."""
        return self._of(run).last_request(run)

    def last_messages(self, run: StepRun) -> list[str]:
        """See the protocol."""
        return self._of(run).last_messages(run)

    def log_mark(self, run: StepRun) -> Hashable:
        """See the protocol."""
        return self._of(run).log_mark(run)

    def environment_digest(
        self, run: StepRun, argv: tuple[str, ...], environment: Mapping[str, str]
    ) -> str | None:
        """See the protocol."""
        return self._of(run).environment_digest(run, argv, environment)

    def descriptors(self) -> tuple[int, ...]:
        """See the protocol."""
        return tuple(number for one in self._opened() for number in one.descriptors())

    def drain(self) -> None:
        """See the protocol."""
        for one in self._opened():
            one.drain()

    def warm(self) -> None:
        """See the protocol."""
        with self._lock:
            self._warm = True
            for one in self._known.values():
                one.warm()

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

    executors = Executors(opened, executor_kinds.DEFAULT)
    for name in dict.fromkeys([executor_kinds.DEFAULT, *(one.backend for one in settings.jobs.executors)]):
        executors.named(name)
    return executors
