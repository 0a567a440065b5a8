"""An executor without processes, for tests: runs begin and end when the test says so, by a clock it moves."""

# ruff: noqa: ARG002 - the parameters are the protocol's

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nemo_helix_server.executors.base import (
    Admitted,
    AlreadyStartedError,
    CapacityRequest,
    ExecutorError,
    Launch,
    MachineTooSmallError,
    RunObservation,
    RunPlace,
    RunState,
    WaitingForCapacity,
)
from nemo_helix_server.executors.capacity import require_size
from nemo_helix_server.executors.environment_digest import Environments
from nemo_helix_server.executors.environments import LocalPlace
from nemo_helix_server.settings import ProfileSettings
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.clock import SECOND, Clock, MovableClock
from nemo_trainer.contract.allocation import Allocation


@dataclass(slots=True)
class FakeRun:
    """What the fake remembers of one run."""

    seen: RunObservation
    launch: Launch | None = None
    want: str = "run"
    seq: int = 0
    stops: list[float] = field(default_factory=list)
    """The grace of every `FakeStepExecutor.stop`."""
    stacks: bool = False
    """Whether one of them asked for stacks."""


@dataclass(slots=True)
class FakeMachine:
    """The machine of the fake: it outlives the executors that look at it, as the real one does."""

    clock: Clock = field(default_factory=MovableClock)
    slots: int = 1_000_000
    devices: int = 1_000_000
    nodes: int = 1
    memory_bytes: int = 1 << 60
    runs: dict[str, FakeRun] = field(default_factory=dict)
    queue: dict[str, tuple[tuple[float, int], int]] = field(default_factory=dict)
    holding: dict[str, CapacityRequest] = field(default_factory=dict)

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.clock.now() / SECOND

    def begin(self, token: str) -> None:
        """The command runs."""
        self._see(token, state=RunState.RUNNING, started_at=self.now)

    def end(self, token: str, exit_status: int, **facts: object) -> None:
        """The command has ended, and all that it started."""
        number = exit_status - 128 if exit_status > 128 else 0
        reason = f"exited with status {exit_status}"
        changes: dict[str, object] = {"signal": number, "reason": reason, "ended_at": self.now, **facts}
        self._see(token, state=RunState.EXITED, exit_status=exit_status, **changes)
        self.holding.pop(token, None)

    def enqueue(self, token: str, reason: str) -> None:
        """A scheduler has it, and lets it wait."""
        self._see(token, state=RunState.QUEUED, reason=reason)

    def dequeue(self, token: str) -> None:
        """The scheduler has given it its place; the command does not run yet."""
        self._see(token, state=RunState.STARTING, reason="")

    def lose(
        self,
        token: str,
        *,
        interrupted: str = "",
        failed_nodes: tuple[str, ...] = (),
        notice: Allocation | None = None,
    ) -> None:
        """The shim was killed; with ``interrupted``, that is why its place was taken away."""
        facts: dict[str, object] = {
            "interrupted": interrupted,
            "failed_nodes": failed_nodes,
            "notice": notice,
        }
        self._see(token, state=RunState.LOST, reason="was lost", ended_at=self.now, **facts)
        self.holding.pop(token, None)

    def _see(self, token: str, **changes: object) -> None:
        run = self.runs[token]
        run.seen = dataclasses.replace(run.seen, **changes)  # type: ignore[arg-type]


class FakeStepExecutor:
    """See `nemo_helix_server.executors.base.StepExecutor`."""

    def __init__(self, machine: FakeMachine | None = None) -> None:
        self.machine = machine or FakeMachine()
        self.digest: str | None = "sha256:fake"
        self.fail_to_start: str | None = None
        """A sentence: every start raises it until it is `None` again."""

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See the protocol; the queue is by ``turn``, then by who asked first."""
        self.require_possible(request)
        machine, token = self.machine, request.run.token
        if token in machine.holding:
            return Admitted(tuple(map(str, range(request.devices))), request.slots)
        machine.queue.setdefault(token, (request.turn, len(machine.queue)))
        before = [other for other, place in machine.queue.items() if place < machine.queue[token]]
        used = sum(held.slots for held in machine.holding.values())
        if before or used + request.slots > machine.slots:
            holders = ", ".join(sorted({held.job for held in machine.holding.values()})) or "nobody"
            return WaitingForCapacity(
                f"all {machine.slots} slots are held by {holders}, and {len(before)} wait before it"
            )
        del machine.queue[token]
        machine.holding[token] = request
        return Admitted(tuple(map(str, range(request.devices))), request.slots)

    def require_possible(self, request: CapacityRequest) -> None:
        """See the protocol."""
        require_size(request, nodes=self.machine.nodes, memory_bytes=self.machine.memory_bytes)
        if request.devices > self.machine.devices:
            raise MachineTooSmallError(
                f"{request.job} asks for {request.devices} GPU devices, and this machine has "
                f"{self.machine.devices}"
            )

    def release(self, run: StepRun) -> None:
        """See the protocol."""
        self.machine.queue.pop(run.token, None)
        self.machine.holding.pop(run.token, None)

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol; the command runs only once `FakeMachine.begin` says so."""
        if self.fail_to_start:
            raise ExecutorError(self.fail_to_start)
        if run.token in self.machine.runs:
            raise AlreadyStartedError(f"{run.token} was started before; every start needs a task of its own")
        self.machine.runs[run.token] = FakeRun(RunObservation(RunState.STARTING), launch)

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol."""
        known = self.machine.runs
        absent = RunObservation(RunState.ABSENT)
        return {run.token: known[run.token].seen if run.token in known else absent for run in runs}

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._want(run, "pause", seq)

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._want(run, "run", seq)

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """See the protocol; the command ends only once `FakeMachine.end` says so."""
        known = self.machine.runs.get(run.token)
        if known is None or known.seen.state is RunState.QUEUED:
            given_up = RunObservation(
                RunState.LOST, never_started=True, reason="was given up before it started"
            )
            self.machine.runs[run.token] = FakeRun(given_up, stops=[grace_seconds] if known else [])
            self.release(run)
        else:
            known.stops.append(grace_seconds)
            known.stacks = known.stacks or stacks

    def kill(self, run: StepRun) -> None:
        """See the protocol."""
        self.machine.lose(run.token)

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol."""
        known = self.machine.runs.get(run.token)
        return known.seq or None if known else None

    def place(self, profile: ProfileSettings) -> RunPlace:
        """See the protocol: this machine, with a digest that tests choose."""
        return _FakePlace(self)

    def close(self) -> None:
        """See the protocol."""

    def _want(self, run: StepRun, want: str, seq: int) -> None:
        known = self.machine.runs.get(run.token)
        if known is not None and seq > known.seq:
            known.want, known.seq = want, seq


class _FakePlace(LocalPlace):
    def __init__(self, executor: FakeStepExecutor) -> None:
        super().__init__(os.environ, Environments())
        self._executor = executor

    def environment_digest(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
        return self._executor.digest
