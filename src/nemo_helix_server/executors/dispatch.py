"""Several executors in one service: what is asked about a run goes to the executor that has it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server import executor_kinds
from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.errors import ServerError, UnavailableError
from nemo_helix_server.executor_kinds import UnknownExecutorError
from nemo_helix_server.executors import answers, options
from nemo_helix_server.executors.base import (
    Admitted,
    CapacityRequest,
    EngineFinder,
    ExecutorError,
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
from nemo_helix_server.executors.calls import BrokenExecutorError, ExecutorCalls
from nemo_helix_server.settings import ProfileSettings, Settings
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import LocalRunStorage, RunStorage
from nemo_runs.findings import Finding

_LOG = logging.getLogger(__name__)
_CLOSE_SECONDS = 10.0
"""For how many seconds executors may close, together, before they are left to themselves."""

Answer = TypeVar("Answer")


class Executors:
    """The executors of a service, as one; see `nemo_helix_server.executors.base.StepExecutor`.

    Each is opened when it is first needed, so runs of a profile that is gone are still looked after. What one
    of them cannot do keeps no other from its work: nobody else calls their code, and whatever it raises,
    answers wrongly or takes too long for is among `problems`; see `nemo_helix_server.executors.calls`.
    """

    def __init__(
        self,
        opened: Callable[[str], StepExecutor],
        default: str,
        data_dir: Path,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``opened`` makes the executor of a name, and may raise `UnknownExecutorError`.

        ``data_dir`` is the service's data directory; ``monotonic`` gives seconds.
        """
        self.data_directory: RunStorage = LocalRunStorage(JobStorage(data_dir))
        self.calls = ExecutorCalls(executor_kinds.title, monotonic)
        self._open = opened
        self._default = default
        self._known: dict[str, StepExecutor] = {}
        self._lock = threading.RLock()
        self._warm = False
        self._ended: set[tuple[str, int]] = set()
        """Descriptors behind which there is nothing any more, by the executor that gave them."""

    def problems(self) -> Sequence[str]:
        """What is wrong with executors at the moment, a sentence each; returns at once."""
        return self.calls.problems()

    def slow(self) -> Sequence[str]:
        """Calls that should have returned, a sentence each; returns at once."""
        return self.calls.slow()

    def named(self, name: str) -> StepExecutor:
        """The executor of a name, empty for the default one.

        Raises `NeverPossibleError` when there is none, and `BrokenExecutorError` when it cannot be opened.
        """
        name = name or self._default
        with self._lock:
            if name not in self._known:
                opened, allowed = partial(self._open, name), (ServerError,)
                try:
                    found = self.calls.ask(name, "open", opened, answers.executor, allowed=allowed)
                except UnknownExecutorError as error:
                    raise NeverPossibleError(str(error)) from error
                except ServerError as error:
                    raise BrokenExecutorError(str(error)) from error
                self._known[name] = found
                if self._warm:
                    self._warm_up(name, found)
            return self._known[name]

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See the protocol."""
        return self._ask(request.run, "admit", options.admit, request, check=answers.admission)

    def require_possible(self, request: CapacityRequest) -> None:
        """See the protocol."""
        self._ask(request.run, "require_possible", options.require_possible, request)

    def files(self, run: StepRun) -> RunStorage:
        """The storage that has the files of a run.

        Those of an executor that is not there any more are looked for in the service's data directory.
        """
        try:
            return self._ask(run, "files", options.files, run, self.data_directory, check=answers.storage)
        except NeverPossibleError:
            return self.data_directory

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
        name = executor or self._default
        found = self.calls.ask(
            name, "place", partial(options.place, self.named(name), profile), answers.place
        )
        return _AskedPlace(self.calls, name, found)

    def check(self, executor: str, profile: ProfileSettings, provider: Provider) -> Sequence[Finding]:
        """See `base.Checks`; ``executor`` is a name."""
        name = executor or self._default
        check = partial(options.check, self.named(name), profile, provider)
        return self.calls.ask(name, "check", check, answers.findings)

    def finds_software(self, run: StepRun) -> bool:
        """See `options.finds_software`."""
        return options.finds_software(self.named(run.executor))

    def software(self, run: StepRun) -> Software | None:
        """See `base.FindsSoftware`."""
        try:
            return self._ask(run, "software", options.software, run, check=answers.software)
        except NeverPossibleError:
            return None

    def release(self, run: StepRun) -> None:
        """See the protocol."""
        with contextlib.suppress(NeverPossibleError):  # an executor that is not there holds nothing
            self._ask(run, "release", options.release, run)

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol."""
        self._ask(run, "start", lambda one: one.start(run, launch))

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol; nothing is known of the runs of an executor that fails."""
        by_executor: dict[str, list[StepRun]] = {}
        for run in runs:
            by_executor.setdefault(run.executor or self._default, []).append(run)
        seen: dict[str, RunObservation] = {}
        for name, those in by_executor.items():
            tokens = {run.token: None for run in those}
            try:
                executor = self.named(name)
                look = partial(executor.observe, those)
                check = partial(answers.observations, wanted=tokens)
                found, wrong = self.calls.ask(name, "observe", look, check, allowed=())
            except ExecutorError as error:
                unknown = RunObservation(RunState.UNKNOWN, reason=str(error))
                seen |= dict.fromkeys(tokens, unknown)
                continue
            if wrong:
                sentence = f"{executor_kinds.title(name)} answers wrongly to observe: {wrong}"
                self.calls.failed(name, "observe", sentence)
                silent = RunObservation(RunState.UNKNOWN, reason=sentence)
                seen |= dict.fromkeys(tokens, silent)
            seen |= found
        return seen

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._ask(run, "request_pause", lambda one: one.request_pause(run, seq=seq, by=by, at=at))

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._ask(run, "withdraw_pause", lambda one: one.withdraw_pause(run, seq=seq, by=by, at=at))

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """See the protocol."""
        self._ask(run, "stop", lambda one: one.stop(run, grace_seconds=grace_seconds, stacks=stacks))

    def kill(self, run: StepRun) -> None:
        """See the protocol."""
        self._ask(run, "kill", lambda one: one.kill(run))

    def end_chain(self, run: StepRun) -> None:
        """See `base.Continues`."""
        with contextlib.suppress(NeverPossibleError):  # an executor that is not there starts nothing
            self._ask(run, "end_chain", options.end_chain, run)

    def open_chains(self) -> list[StepRun]:
        """See `base.KnowsChains`: those of all executors that are open."""
        asked = self._ask_each("open_chains", options.open_chains, answers.runs)
        return [run for _, found in asked for run in found]

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol."""
        return self._ask(run, "last_request", lambda one: one.last_request(run), check=answers.number)

    def descriptors(self) -> tuple[int, ...]:
        """See `base.Wakes`; of an executor of which they cannot be waited for there are none."""
        return tuple(number for _, number in self._descriptors())

    def drain(self) -> None:
        """Empty `descriptors`; one that has nothing behind it any more is not waited for again."""
        for name, number in self._descriptors():
            ended: tuple[int, ...] = ()
            with contextlib.suppress(OSError):  # it was closed just now, and is left out the next time
                ended = options.drain([number])
            if ended:
                self._ended.add((name, number))
                title = executor_kinds.title(name)
                sentence = f"{title} has closed what wakes the service; its runs are looked at less often"
                self.calls.failed(name, "waking", sentence)

    def warm(self) -> None:
        """See `base.Warms`; what is opened later is warmed then."""
        with self._lock:
            self._warm = True
        for name, one in self._opened():
            self._warm_up(name, one)

    def close(self) -> None:
        """See the protocol; one that takes too long is left to itself."""
        deadline = time.monotonic() + _CLOSE_SECONDS
        closing = [
            (name, threading.Thread(target=self._close, args=(name, one), daemon=True))
            for name, one in self._opened()
        ]
        for _, thread in closing:
            thread.start()
        for name, thread in closing:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                _LOG.error("%s has not closed after %g seconds", executor_kinds.title(name), _CLOSE_SECONDS)

    def _close(self, name: str, executor: StepExecutor) -> None:
        with contextlib.suppress(ExecutorError):
            self.calls.ask(name, "close", executor.close, answers.nothing)

    def _warm_up(self, name: str, executor: StepExecutor) -> None:
        with contextlib.suppress(ExecutorError):
            self.calls.ask(name, "warm", partial(options.warm, executor), answers.nothing)

    def _descriptors(self) -> list[tuple[str, int]]:
        asked = self._ask_each("descriptors", options.descriptors, answers.descriptors)
        found = [(name, number) for name, numbers in asked for number in numbers]
        return [one for one in found if one not in self._ended]

    def _ask(
        self,
        run: StepRun,
        method: str,
        call: Callable[..., object],
        *arguments: object,
        check: Callable[[Any], Answer] = answers.nothing,  # type: ignore[assignment]
    ) -> Answer:
        """Ask the executor of a run; ``call`` is given it, and the arguments."""
        name = run.executor or self._default
        asked = partial(call, self.named(name), *arguments)
        return self.calls.ask(name, method, asked, check, about=run.token)

    def _ask_each(
        self, method: str, call: Callable[[StepExecutor], object], check: Callable[[Any], Answer]
    ) -> list[tuple[str, Answer]]:
        """Ask all executors that are open; what one cannot answer, the others do."""
        found = []
        for name, one in self._opened():
            with contextlib.suppress(ExecutorError):
                found.append((name, self.calls.ask(name, method, partial(call, one), check)))
        return found

    def _opened(self) -> tuple[tuple[str, StepExecutor], ...]:
        with self._lock:
            return tuple(self._known.items())


class _AskedPlace:
    """A `base.RunPlace` of an executor, which may be another package's code as well."""

    def __init__(self, calls: ExecutorCalls, name: str, place: RunPlace) -> None:
        self._calls = calls
        self._name = name
        self._place = place

    def environment(self) -> Mapping[str, str]:
        """See the protocol."""
        return self._ask("environment", self._place.environment, answers.variables)

    def machine(self) -> TrainingMachine | None:
        """See the protocol."""
        return self._ask("machine", self._place.machine, answers.training_machine)

    def engine(self, name: str, here: EngineFinder) -> EngineFacts:
        """See the protocol."""
        found: EngineFacts = self._ask(
            "engine", partial(self._place.engine, name, here), answers.engine_facts
        )
        return found

    def python(self) -> str | None:
        """See the protocol."""
        return self._ask("python", self._place.python, answers.text)

    def has_program(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:
        """See the protocol."""
        look = partial(self._place.has_program, argv, environment)
        return self._ask("has_program", look, answers.fact)

    def environment_digest(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
        """See the protocol."""
        look = partial(self._place.environment_digest, argv, environment)
        return self._ask("environment_digest", look, answers.text)

    def _ask(self, method: str, call: Callable[[], object], check: Callable[[Any], Answer]) -> Answer:
        try:
            return self._calls.ask(
                self._name, f"place.{method}", call, check, allowed=(ExecutorError, ServerError)
            )
        except UnavailableError as error:  # it says that the service's own database is away
            raise BrokenExecutorError(str(error)) from error


def of_service(settings: Settings, monotonic: Callable[[], float] = time.monotonic) -> Executors:
    """The executors of a service; those of its profiles are opened at once.

    Raises `ServerError` when one cannot be opened, so that the service does not start: its own one, if any.
    """

    def opened(name: str) -> StepExecutor:
        kind: ExecutorKind = executor_kinds.load(name)
        return kind.open(settings)

    executors = Executors(opened, executor_kinds.DEFAULT, settings.data_dir, monotonic)
    for name in dict.fromkeys([executor_kinds.DEFAULT, *(one.backend for one in settings.jobs.executors)]):
        try:
            executors.named(name)
        except ExecutorError as error:
            if isinstance(error.__cause__, ServerError):
                raise error.__cause__ from None
            raise ServerError(str(error)) from error
    return executors
