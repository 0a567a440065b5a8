"""What every executor promises to the controller, and the values that pass between them.

An executor starts, observes and ends *runs*; a run is one start of one step. It reports what it sees and
never decides, and it knows neither the store nor the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath
from typing import NamedTuple, Protocol, runtime_checkable

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.executors.landlock import FileAccess
from nemo_helix_server.jobs.advice import FailureKind
from nemo_helix_server.settings import ProfileSettings, Settings
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import RunStorage
from nemo_runs.findings import Finding
from nemo_runs.secret_refs import SecretText
from nemo_trainer.contract.allocation import Allocation


class ExecutorError(Exception):
    """The executor could not do what was asked; the message says what would be right."""

    executor = ""
    """The name of the executor; added where it was asked."""


class AlreadyStartedError(ExecutorError):
    """This run was started before, or was given up before it started; a run starts at most once."""


class NeverPossibleError(ExecutorError):
    """The run can never be started as things are; the message says what would be right."""

    kind = FailureKind.START_SETUP
    """What helps, see `nemo_helix_server.jobs.advice`."""


class MachineTooSmallError(NeverPossibleError):
    """The machine could never give what the run needs."""

    kind = FailureKind.START_TOO_LARGE


class RefusedByClusterError(NeverPossibleError):
    """A scheduler does not take the job of the run as it is."""

    kind = FailureKind.START_REFUSED


class NotConfinedError(NeverPossibleError):
    """The run could not be kept to its own files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNeeds:
    """What a step asks for; what is `None` is the executor's own default."""

    nodes: int = 1
    gpus: int = 0
    """Of each node."""
    cpus: float | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    """Shared memory."""


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """What a run needs of the machine before it may start."""

    run: StepRun
    job: str
    """``<workspace>/<job name>``: who is named when somebody else has to wait."""
    workspace: str
    needs: ResourceNeeds
    slots: int
    """Places for steps without GPU that it takes, where the executor counts them."""
    turn: tuple[float, int]
    """Its place in the queue, smallest first, see `nemo_runs.clock.turn`."""
    confined: bool = False
    """Whether it is to be kept to its own files, see `Launch.file_access`."""

    @property
    def devices(self) -> int:
        """GPU devices of each node."""
        return self.needs.gpus


@dataclass(frozen=True, slots=True)
class Admitted:
    """The run may start and holds these devices until it has ended or `Admits.release` is called."""

    devices: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True)
class WaitingForCapacity:
    """There is no free capacity now."""

    reason: str
    """One sentence: what it waits for, and who holds that."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a run; every path in it is one that the run sees."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    secrets: Mapping[str, SecretText] = field(default_factory=dict)
    """Further variables of the environment, delivered to this run alone, and redacted in its log."""
    working_directory: PurePath = Path("/")
    devices: tuple[str, ...] = ()
    memory_bytes: int | None = None
    """What all its processes together may have in memory; `None` = no limit."""
    time_limit_seconds: float | None = None
    grace_seconds: float = 10.0
    """How long it may take to end after SIGTERM."""
    log_bytes: int = 64 << 20
    """What its log may take on disk; older lines are removed for newer ones."""
    file_access: FileAccess | None = None
    """The only files and folders that it can use; `None` = whatever the user can.

    An executor that cannot keep a run to them refuses the start with `NotConfinedError`."""
    needs: ResourceNeeds = ResourceNeeds()
    image: str | None = None
    """The container image that the step names; an executor without containers runs the command as it is."""
    goes_on: bool = False
    """Whether the step can go on from a checkpoint in another start, without anybody asking."""
    exclude_nodes: tuple[str, ...] = ()
    """Nodes that it must not have, since earlier starts of its step failed with them."""
    profile: ProfileSettings | None = None
    """The configuration of the step's execution profile, of the type that the executor's kind names."""


class RunState(StrEnum):
    """What is seen of a run."""

    ABSENT = "absent"
    """It was never started."""
    QUEUED = "queued"
    """It has been handed to a scheduler, and waits there; `RunObservation.reason` says for what."""
    STARTING = "starting"
    """It has been claimed, its command does not run yet."""
    RUNNING = "running"
    EXITED = "exited"
    """Its end is on record, and nothing of it runs any more."""
    LOST = "lost"
    """It is proven that nothing of it runs any more, and how it ended is not on record."""
    UNKNOWN = "unknown"
    """Nothing can be observed from here now; the controller waits."""


@dataclass(frozen=True, slots=True)
class RunObservation:
    """What an executor sees of a run at one moment; times in seconds since the epoch."""

    state: RunState
    exit_status: int | None = None
    """Of an exited run, as a shell says it: 128 + signal when a signal ended it."""
    signal: int = 0
    eligible_at: float | None = None
    """Since when it could have run, by the word of the scheduler that let it wait."""
    started_at: float | None = None
    ended_at: float | None = None
    out_of_memory: bool = False
    """The kernel or the memory limit ended it."""
    disk_full: bool = False
    """It failed, and the disk had no space for what it or its shim had to write."""
    timed_out: bool = False
    """Its time limit ended it."""
    stopped: bool = False
    """It was ended from outside: because `StepExecutor.stop` asked for it, or by a signal to its shim."""
    asked: bool = False
    """Whether `StepExecutor.stop` had asked for its end."""
    interrupted: str = ""
    """Of a run that is over: a clause that says why the place to run, and not the workload, may have ended
    it, such as ``the machine was restarted`` or ``it was preempted``; empty when the place stayed."""
    failed_nodes: tuple[str, ...] = ()
    """Of a run that is over: the nodes whose failure ended it, or kept it from starting."""
    notice: Allocation | None = None
    """Of an interrupted run: what was announced before; `None` = nothing, or that is not known."""
    never_started: bool = False
    """Of a lost run: it was given up before it started, and can never start."""
    reason: str = ""
    """One short clause for people, such as ``exited with status 1``; may be left out."""
    place: str = ""
    """Where it runs, for people, such as ``job 4711 on n3``; empty where that goes without saying."""
    fallback: str = ""
    """One sentence, where a request could not reach it and it was ended another way; else empty."""
    unseen: str = ""
    """Why this is older than it should be, or not whole, for people; empty when it was seen just now."""


class StepExecutor(Protocol):
    """Runs steps somewhere; safe to be asked anything again after a crash of the caller.

    That is all that an executor must do. What it can do beyond that it says by having the methods of one of
    `Admits`, `KeepsFiles`, `Located`, `FindsSoftware`, `Continues`, `KnowsChains`, `Wakes`, `Warms` and
    `Checks`; `nemo_helix_server.executors.options` says what holds for one that has not.

    `start` may take long: it is asked for in threads of this executor. `Checks.check` may take long as well.
    Everything else is asked for by the one thread that looks after all jobs, and must return at once: what
    waits for a network or another program goes into
    `nemo_helix_server.executors.background.ObservedInBackground`. A call that does not return within 30
    seconds is a problem of the service, which ``/health`` and the log name.

    What a method raises that its docstring does not name, and an answer of another type, are this executor's
    failure and nobody else's: ``/health``, the log and the details of the job name it and its package, and it
    is asked again. `SystemExit` ends nothing.
    """

    def start(self, run: StepRun, launch: Launch) -> None:
        """Start the run, at most once for any number of calls, also across crashes of the caller.

        Raises `AlreadyStartedError` when it was started or stopped before, and `ExecutorError` when it could
        not be started now: asking again is safe. That the command itself cannot run is not an error here but
        its end, with status 127. Values of ``launch.secrets`` are in no argument list. Where the run begins
        later and without the caller, they may wait for it in a file for its owner alone, which is removed
        with the end of the run at the latest. Asked from one of several threads, so it may take long; `stop`
        may be asked for meanwhile, and then the run has to end or must not begin.

        The folder of the run is there: `nemo_helix_server.storage.job_folders.JobStorage.run_folder`, below
        ``settings.data_dir``, unless the executor is one of `KeepsFiles`. What is read there:

        - ``output.jsonl``, the log of the run, which the executor writes: each line is a JSON object with
          the time ``t`` in seconds since the epoch, the stream ``s`` (``out`` or ``err``) and the text ``m``.
          `Pump` and `Log` of `nemo_helix_server.logs.writer` make it of a command's pipes, within
          ``launch.log_bytes`` and without secret values. Where there is no such file the log is empty.
        - ``control.json``, the newest request of `request_pause` or `withdraw_pause`, which
          `nemo_trainer.contract.write_control` writes for the workload.

        Which start was claimed, and how it ended, is the executor's own record; the one of this machine keeps
        it in the same folder (`nemo_helix_server.storage.run_files`).
        """
        ...

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """Look at many runs at once, and return at once; the answer has every token.

        A number alone never names a process. A run of which nothing is known now is `RunState.UNKNOWN`, with
        the reason: raising says that of all of them.
        """
        ...

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """Ask the workload to save a checkpoint and to exit with status 75; may be repeated."""
        ...

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """Ask the workload to continue; ``seq`` is larger than the request's."""
        ...

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """Begin to end the run and everything it started; returns at once, may be repeated.

        With ``stacks`` its processes that can are first made to write where they are into its log.

        A run that was never started never will be afterwards, nor one that waits in a queue: it is then
        observed as lost, and as never started.
        """
        ...

    def kill(self, run: StepRun) -> None:
        """End the run at once together with whatever watches it: for one that `stop` does not end."""
        ...

    def last_request(self, run: StepRun) -> int | None:
        """The number of the newest request that the run was given, by whichever process; `None`: none was.

        Raises `ExecutorError` where that is not known yet. It is known of every run whose end is known.
        """
        ...

    def close(self) -> None:
        """Release everything that this process holds; runs keep running."""
        ...


@runtime_checkable
class Admits(Protocol):
    """An executor that lets runs wait for their turn here, before they are started."""

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """Take what the run needs, or say why it has to wait; asking again takes nothing twice.

        Runs that wait are served in the order of ``turn``. What was taken stays with the run when it
        starts and is free again when it has ended, whatever happens to the caller. Raises
        `NeverPossibleError` when there is no use in waiting.
        """
        ...

    def require_possible(self, request: CapacityRequest) -> None:
        """Raise `NeverPossibleError` when the executor could never give what `admit` is asked for.

        `NotConfinedError` when it cannot keep a run to its own files, and is asked to.
        """
        ...

    def release(self, run: StepRun) -> None:
        """Give back what `admit` took or give up its place in the queue; fine when there is nothing."""
        ...


@runtime_checkable
class KeepsFiles(Protocol):
    """An executor that keeps the files of its runs elsewhere than in the service's data directory."""

    def files(self, run: StepRun) -> RunStorage:
        """The storage that has the files of a run: the same object for the same storage."""
        ...


EngineFinder = Callable[[str], EngineFacts]
"""How an engine of a name is started; raises `nemo_helix_server.errors.ServerError` when it cannot be."""


class RunPlace(Protocol):
    """What there is where a run runs: asked when it is started, since that may differ from this machine."""

    def environment(self) -> Mapping[str, str]:
        """The variables that a run finds there, before its profile and its step add theirs."""
        ...

    def machine(self) -> TrainingMachine | None:
        """What trains there; `None`: what the service's own machine has."""
        ...

    def engine(self, name: str, here: EngineFinder) -> EngineFacts:
        """How processes of an engine are started there; ``here`` says it of the service's own machine.

        Raises `NeverPossibleError`, with what helps, where it has to be there and is not.
        """
        ...

    def python(self) -> str | None:
        """The interpreter that has this package, for steps that do not train; `None`: the service's own.

        Raises `NeverPossibleError` where such steps cannot run.
        """
        ...

    def has_program(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:
        """Whether the program of a command is there; true where that cannot be known before the start."""
        ...

    def environment_digest(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
        """What names the software a command would run in, `None` when that cannot be read."""
        ...


@runtime_checkable
class Located(Protocol):
    """An executor that knows what there is where its runs run."""

    def place(self, profile: ProfileSettings) -> RunPlace:
        """The place to run that an execution profile leads to; returns at once."""
        ...


class Software(NamedTuple):
    """What a run runs in."""

    name: str
    """For people: an image, or an environment."""
    digest: str | None
    """`None`: it cannot be read."""


@runtime_checkable
class FindsSoftware(Protocol):
    """An executor that finds out what a run runs in only where and when it begins."""

    def software(self, run: StepRun) -> Software | None:
        """What was found; `None`: nothing yet."""
        ...


@runtime_checkable
class Continues(Protocol):
    """An executor whose runs may queue the next start of their step themselves, with nobody asking.

    That start has the token `nemo_helix_server.storage.run_files.next_token`; it is found when the controller
    starts it.
    """

    def end_chain(self, run: StepRun) -> None:
        """Nothing is to follow a run that is over: what was queued after it never starts, or ends."""
        ...


@runtime_checkable
class KnowsChains(Protocol):
    """An executor that remembers after whose runs something may be queued, whatever becomes of the caller."""

    def open_chains(self) -> Sequence[StepRun]:
        """Runs whose chain `Continues.end_chain` has not ended yet; returns at once.

        A caller that was killed between the end of a run and the end of its chain finds it here.
        """
        ...


@runtime_checkable
class Wakes(Protocol):
    """An executor that need not be polled."""

    def descriptors(self) -> tuple[int, ...]:
        """Pipes or event descriptors, not blocking, that are readable when a run may have changed.

        The caller that waits for them empties them. They stay the same until `StepExecutor.close`.
        """
        ...


@runtime_checkable
class Warms(Protocol):
    """An executor with something that is better begun before the first start."""

    def warm(self) -> None:
        """Get ready what the first start would wait for; returns at once."""
        ...


@runtime_checkable
class Checks(Protocol):
    """An executor that can find out, without a run, what would keep runs of a profile from working."""

    def check(self, profile: ProfileSettings, provider: Provider) -> Sequence[Finding]:
        """What is so where runs of this profile would run, and what to change; may take a minute.

        ``provider`` says what steps of the profile ask for. Nothing is started, and what a check makes it
        takes away again, except for what every start needs.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorKind:
    """What the module of an executor exports, see `nemo_helix_server.executor_kinds`."""

    open: Callable[[Settings], StepExecutor]
    """Make the executor of a service; called once, when it is first needed."""
    config: type[ProfileSettings] = ProfileSettings
    """The configuration of its profiles."""
    profiles: tuple[tuple[str, str], ...] = ()
    """Provider and name of the profiles that every service has, with the configuration's defaults.

    Where two executors bring the same one, that of the built-in executor counts, then the first by name."""
