"""The executor that runs steps as processes of this machine, each under a shim of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.engines import environments, machine
from nemo_helix_server.errors import StoreError
from nemo_helix_server.executors.base import (
    Admitted,
    AlreadyStartedError,
    CapacityRequest,
    ExecutorError,
    ExecutorKind,
    Launch,
    RunObservation,
    RunPlace,
    RunState,
    WaitingForCapacity,
)
from nemo_helix_server.executors.capacity import Capacity, LeasedCapacity, machine_memory, require_size
from nemo_helix_server.executors.environment_digest import Environments
from nemo_helix_server.executors.environments import LocalPlace
from nemo_helix_server.executors.launcher import Launcher, ShimStartError
from nemo_helix_server.executors.local_checks import MachineChecks
from nemo_helix_server.executors.shim import MARKER
from nemo_helix_server.settings import ProfileSettings, Settings, SubprocessSettings
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.errors import RunsError
from nemo_runs.findings import Finding
from nemo_runs.leases import machine_leases
from nemo_runs.processes import process_table, trees
from nemo_runs.processes.trees import Liveness, ProcessIdentity
from nemo_trainer import contract

_FIFO = "wake"
_RESTARTED = "the machine was restarted"
_REMEMBERED = 10_000
"""Starts that are known to have been made, whatever becomes of their records."""


def _made_pipe(folder: Path) -> Path:
    """The named pipe in a folder, made where it is missing. Any other kind of file would wake without end."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise StoreError(f"{folder} must be a folder, and something else is there; move it away") from None
    pipe = folder / _FIFO
    with contextlib.suppress(FileExistsError):
        os.mkfifo(pipe, 0o600)
    if not stat.S_ISFIFO(os.lstat(pipe).st_mode):
        raise StoreError(f"{pipe} must be a named pipe, and something else is there; move it away")
    return pipe


class ProcessExecutor:
    """Runs steps on this machine; see `nemo_helix_server.executors.base.StepExecutor`."""

    def __init__(
        self,
        jobs: JobStorage,
        folder: Path,
        capacity: Capacity,
        launcher: Launcher | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        checks: Callable[[Provider], Sequence[Finding]] = lambda _: (),
    ) -> None:
        """``jobs`` has the folders of runs; ``folder`` is the executor's own, for its named pipe.

        ``capacity`` grants devices and slots.

        ``environ`` is the service's environment, of which runs are given a part; ``checks`` looks at the
        machine.

        Raises `StoreError` when something else is in the place of either.
        """
        self._jobs = jobs
        self._fifo = _made_pipe(folder)
        # open for writing too, so that it never ends when the last shim lets go of it
        self._pipe = os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._capacity = capacity
        self._launcher = launcher or Launcher()
        self._environ = dict(environ)
        self._checks = checks
        self._environments = Environments()
        self._launched: dict[str, None] = {}

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See the protocol."""
        self.require_possible(request)
        return self._capacity.admit(request)

    def require_possible(self, request: CapacityRequest) -> None:
        """See the protocol."""
        require_size(request, nodes=1, memory_bytes=machine_memory())
        self._capacity.require_possible(request)

    def place(self, profile: ProfileSettings) -> RunPlace:  # noqa: ARG002 - the protocol's
        """See the protocol: this machine."""
        return LocalPlace(self._environ, self._environments)

    def check(self, profile: ProfileSettings, provider: Provider) -> Sequence[Finding]:  # noqa: ARG002 - the protocol's
        """See `nemo_helix_server.executors.base.Checks`: the machine is the same for all profiles."""
        return self._checks(provider)

    def release(self, run: StepRun) -> None:
        """See the protocol."""
        self._capacity.release(run.token)

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol."""
        if (self._jobs.run_folder(run) / run_files.CLAIM).exists():
            raise AlreadyStartedError(f"{run.token} was started before; every start needs a task of its own")
        try:
            mine = self._launcher.launch(self._order(run, launch))
        except ShimStartError as error:
            raise ExecutorError(f"{run.token} could not be started: {error}") from error
        self._launched[run.token] = None
        if len(self._launched) > _REMEMBERED:
            self._launched.pop(next(iter(self._launched)), None)
        if not mine:
            raise AlreadyStartedError(f"{run.token} was started before; every start needs a task of its own")

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol."""
        return {run.token: self._seen(run) for run in runs}

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._write_control(run, contract.Control(seq, "pause", by, at))

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._write_control(run, contract.Control(seq, "run", by, at))

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """See the protocol."""
        folder = self._jobs.run_folder(run)
        with contextlib.suppress(RunsError):
            claim = run_files.read_claim(folder)
            if claim is None:
                folder.mkdir(parents=True, exist_ok=True)
                if run_files.make_claim(folder, run_files.RunClaim(None, time.time())):
                    _end_strays(run.token)  # the claim of one that runs may have been removed
                    self.release(run)
                    return
                claim = run_files.read_claim(folder)
            if claim is not None and claim.identity is not None:
                _ask_to_stop(folder, claim.identity, run_files.StopRequest(grace_seconds, stacks))

    def kill(self, run: StepRun) -> None:
        """See the protocol."""
        with contextlib.suppress(RunsError):
            claim = run_files.read_claim(self._jobs.run_folder(run))
            if claim is None:
                _end_strays(run.token)
            elif claim.identity is not None:
                _signal(claim.identity, signal.SIGKILL)

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol."""
        control = contract.read_control(self._jobs.run_folder(run) / run_files.CONTROL)
        return None if control is None else control.seq

    def descriptors(self) -> tuple[int, ...]:
        """See the protocol."""
        return (self._pipe,)

    def warm(self) -> None:
        """See the protocol."""
        threading.Thread(target=self._launcher.warm, name="launcher", daemon=True).start()

    def close(self) -> None:
        """See the protocol."""
        self._launcher.close()
        os.close(self._pipe)

    def _write_control(self, run: StepRun, control: contract.Control) -> None:
        contract.write_control(self._jobs.run_folder(run) / run_files.CONTROL, control)

    def _seen(self, run: StepRun) -> RunObservation:
        seen = _look(self._jobs.run_folder(run), run.token)
        if seen.state is RunState.ABSENT and run.token in self._launched:
            return _without_claim(run.token, "the record of its start was removed")
        return seen

    def _order(self, run: StepRun, launch: Launch) -> dict[str, Any]:
        environment = dict(launch.environment)
        if launch.devices:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(launch.devices)
        return {
            "token": run.token,
            "folder": str(self._jobs.run_folder(run)),
            "argv": list(launch.argv),
            "environment": environment,
            "secrets": {name: value.reveal() for name, value in launch.secrets.items()},
            "working_directory": str(launch.working_directory),
            "memory_bytes": launch.memory_bytes,
            "time_limit_seconds": launch.time_limit_seconds,
            "grace_seconds": launch.grace_seconds,
            "log_bytes": launch.log_bytes,
            "fifo": str(self._fifo),
            "leases": self._capacity.folder,
            "file_access": launch.file_access.to_json() if launch.file_access else None,
        }


def _look(folder: Path, token: str) -> RunObservation:
    try:
        claim = run_files.read_claim(folder)
    except RunsError as error:
        # somebody meddled with it: the shim, if there is one, is found by the run's mark alone
        return _without_claim(token, str(error))
    if claim is None:
        return RunObservation(RunState.ABSENT)
    if claim.identity is None:
        return RunObservation(
            RunState.LOST, ended_at=claim.at, never_started=True, reason="was given up before it started"
        )
    return _ended(folder, claim) or _unfinished(folder, token, claim, claim.identity)


def _unfinished(folder: Path, token: str, claim: run_files.RunClaim, shim: ProcessIdentity) -> RunObservation:
    alive = trees.liveness(shim)
    started = run_files.read_started(folder)
    at = started[1] if started else None
    if alive is Liveness.ALIVE:
        return RunObservation(RunState.RUNNING if started else RunState.STARTING, started_at=at)
    if alive is Liveness.ELSEWHERE:
        return RunObservation(
            RunState.UNKNOWN, started_at=at, reason=f"runs on {shim.host}, not seen from here"
        )
    # it may have written the end between the two looks
    return _ended(folder, claim) or _lost(token, shim, at)


def _lost(token: str, shim: ProcessIdentity, at: float | None) -> RunObservation:
    interrupted = _interrupted(shim)
    if interrupted:
        return RunObservation(RunState.LOST, started_at=at, interrupted=interrupted, reason=interrupted)
    _end_strays(token)
    return RunObservation(
        RunState.LOST, started_at=at, reason="its shim was killed, so how it ended is unknown"
    )


def _without_claim(token: str, reason: str) -> RunObservation:
    _end_strays(token)
    return RunObservation(RunState.LOST, reason=reason)


def _ended(folder: Path, claim: run_files.RunClaim) -> RunObservation | None:
    with contextlib.suppress(RunsError):
        end = run_files.read_end(folder)
        if end is not None:
            assert claim.identity is not None
            if end.never_started:
                return RunObservation(
                    RunState.LOST, ended_at=end.ended_at, never_started=True, reason=end.reason
                )
            return RunObservation(
                RunState.EXITED,
                exit_status=end.exit_status,
                signal=end.signal,
                started_at=end.started_at,
                ended_at=end.ended_at,
                out_of_memory=end.out_of_memory,
                disk_full=end.disk_full,
                timed_out=end.timed_out,
                stopped=end.stopped,
                asked=run_files.read_stop(folder) is not None,
                interrupted=_interrupted(claim.identity),
                reason=end.reason,
            )
    return None


def _interrupted(shim: ProcessIdentity) -> str:
    return _RESTARTED if shim.boot_id != process_table.boot_id() else ""


def _ask_to_stop(folder: Path, shim: ProcessIdentity, request: run_files.StopRequest) -> None:
    """Ask a shim to end its run."""
    if run_files.read_stop(folder) != request:
        run_files.write_stop(folder, request)
    _signal(shim, signal.SIGTERM)


def _signal(shim: ProcessIdentity, number: signal.Signals) -> None:
    """Signal exactly this process, not a later one of the same number."""
    try:
        descriptor = os.pidfd_open(shim.pid)
    except OSError:
        return
    try:
        if trees.liveness(shim) is Liveness.ALIVE:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _end_strays(token: str) -> None:
    """Kill what a killed shim left: the kernel ends its command with it, but not what that had started."""
    for pid in trees.marked(MARKER, token):
        with contextlib.suppress(RunsError):
            trees.end_tree(trees.identify(pid), grace=0, marker=(MARKER, token))


def _open(settings: Settings) -> ProcessExecutor:
    given = settings.jobs.leases
    folder = given.folder or machine_leases.default_folder(os.environ)
    devices = given.devices if given.devices is not None else machine_leases.found_devices(os.environ)
    pool = machine_leases.Pool(folder, devices, given.slots or machine_leases.found_slots())
    capacity = LeasedCapacity(
        pool, folder, devices_cap=given.devices_per_workspace, slots_cap=given.slots_per_workspace
    )

    def checks(provider: Provider) -> Sequence[Finding]:
        return MachineChecks(
            data_dir=settings.data_dir,
            minimum_free_bytes=settings.jobs.storage.minimum_free_bytes,
            pool=pool,
            engines=settings.engines,
            device=machine.found_device(),
            cache=environments.cache_folder(),
        ).findings(provider)

    return ProcessExecutor(
        JobStorage(settings.data_dir), settings.data_dir / "executor", capacity, checks=checks
    )


KIND = ExecutorKind(
    open=_open,
    config=SubprocessSettings,
    profiles=(
        ("cpu", "default"),
        ("cpu", "gpu"),
        ("gpu", "default"),
        ("gpu", "gpu"),
        ("subprocess", "default"),
    ),
)
