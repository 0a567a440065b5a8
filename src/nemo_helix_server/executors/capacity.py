"""Who may run now: devices and slots of the machine, granted to runs in turn."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Protocol

from nemo_helix_server.executors.base import (
    Admitted,
    CapacityRequest,
    MachineTooSmallError,
    WaitingForCapacity,
)
from nemo_runs.errors import RunsError
from nemo_runs.leases import machine_leases

_REMEMBERED = 10_000


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_size(request: CapacityRequest, *, nodes: int, memory_bytes: int) -> None:
    """Raise `MachineTooSmallError` for more nodes, or more memory of a node, than there are."""
    needs = request.needs
    if needs.nodes > nodes:
        one = "one node" if nodes == 1 else f"{nodes} nodes"
        raise MachineTooSmallError(f"{request.job} asks for {needs.nodes} nodes, and there is {one} here")
    if needs.memory_bytes is not None and needs.memory_bytes > memory_bytes:
        raise MachineTooSmallError(
            f"{request.job} asks for {needs.memory_bytes / (1 << 30):.4g}Gi of memory, and this machine has "
            f"{memory_bytes / (1 << 30):.1f}Gi"
        )


class Capacity(Protocol):
    """Grants devices and slots of the machine to runs."""

    @property
    def folder(self) -> str | None:
        """Where shims take over their `nemo_runs.leases`; `None` without leases."""
        ...

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See `nemo_helix_server.executors.base.StepExecutor.admit`."""
        ...

    def require_possible(self, request: CapacityRequest) -> None:
        """See `nemo_helix_server.executors.base.StepExecutor.require_possible`."""
        ...

    def release(self, token: str) -> None:
        """See `nemo_helix_server.executors.base.StepExecutor.release`."""
        ...


class LeasedCapacity:
    """Capacity of the whole machine, shared with every other program of the user that leases."""

    def __init__(
        self,
        pool: machine_leases.Pool,
        folder: Path,
        *,
        devices_cap: int | None = None,
        slots_cap: int | None = None,
    ) -> None:
        """The caps: how many runs of one workspace may hold devices, and how many slots alone, at once."""
        self.folder: str | None = str(folder)
        self._pool = pool
        self._devices_cap = devices_cap
        self._slots_cap = slots_cap
        self._jobs: dict[str, str] = {}
        """Whose leases the tokens are; those from before a restart are named by their token."""

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See `Capacity`."""
        self.require_possible(request)
        try:
            answer = self._pool.acquire(self._wanted(request))
        except RunsError as error:
            # the book cannot be read or written now: that is not a property of what is asked for
            return WaitingForCapacity(f"waits for the book of leases: {error}")
        if isinstance(answer, machine_leases.Granted):
            self._jobs[request.run.token] = request.job
            if len(self._jobs) > _REMEMBERED:
                del self._jobs[next(iter(self._jobs))]
            return Admitted(answer.devices, answer.slots)
        return WaitingForCapacity(self._with_jobs(answer.reason))

    def require_possible(self, request: CapacityRequest) -> None:
        """See `Capacity`."""
        wanted = self._wanted(request)
        try:
            self._pool.require_possible(wanted)
        except RunsError as error:
            raise MachineTooSmallError(_named(error, wanted, request)) from error

    def _wanted(self, request: CapacityRequest) -> machine_leases.LeaseRequest:
        return machine_leases.LeaseRequest(
            name=request.run.token,
            label=request.workspace,
            devices=request.devices,
            slots=request.slots,
            ticket=machine_leases.ticket(*request.turn),
            cap=self._devices_cap if request.devices else self._slots_cap,
        )

    def release(self, token: str) -> None:
        """See `Capacity`."""
        self._pool.release(token)
        self._jobs.pop(token, None)

    def _with_jobs(self, reason: str) -> str:
        """A reason that names jobs where the book of leases names tokens."""
        known = self._jobs

        def named(found: re.Match[str]) -> str:
            return known.get(found[1], found[0])

        return re.sub(r"[a-z][^\s/,]*/(task-[0-9a-f]{32})", named, reason)


def _named(error: RunsError, wanted: machine_leases.LeaseRequest, request: CapacityRequest) -> str:
    """What the book of leases says, with the job's name in place of the token."""
    return str(error).replace(f"{wanted.label}/{wanted.name}", request.job)


class UnlimitedCapacity:
    """Capacity without a limit: for tests, and for a machine whose steps are few."""

    folder: str | None = None

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See `Capacity`."""
        return Admitted(tuple(map(str, range(request.devices))), request.slots)

    def require_possible(self, request: CapacityRequest) -> None:
        """See `Capacity`."""

    def release(self, token: str) -> None:
        """See `Capacity`."""
