"""Leases of a machine's GPU devices and CPU slots, shared by every program of one user.

A lease belongs to a process (pid, start time, boot). It ends when it is released, or when its holder is
proven dead and nothing with its marker runs any more; no clock ends it. Requests are
served first in, first out, see `nemo_runs.leases.lease_queue.decide`.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nemo_runs import homes
from nemo_runs.errors import LeaseError
from nemo_runs.leases import lease_book
from nemo_runs.leases.devices import found_devices, named_devices
from nemo_runs.leases.lease_queue import (
    Granted,
    LeaseHolder,
    LeaseRequest,
    LeaseWaiting,
    decide,
    require_possible,
    ticket,
)
from nemo_runs.processes import trees
from nemo_runs.processes.trees import ProcessIdentity

__all__ = [
    "Granted",
    "LeaseError",
    "LeaseHolder",
    "LeaseRequest",
    "LeaseWaiting",
    "Pool",
    "default_folder",
    "environment",
    "found_devices",
    "found_slots",
    "is_inside",
    "named_devices",
    "ticket",
]

FOLDER = "NEMO_LEASES_DIR"
"""The variable that names another folder for the book of leases."""
SLOTS = "NEMO_LEASES_SLOTS"
"""The variable that says how many CPU slots this machine has."""
INSIDE = "NEMO_LEASE"
"""The variable that names the lease under which a process runs."""


class Pool:
    """The devices and slots of this machine, as far as this program may lease them."""

    def __init__(
        self, folder: Path, devices: Sequence[str], slots: int, *, clock: Callable[[], float] = time.time
    ) -> None:
        """``folder`` is the same for all programs of the user, see `default_folder`."""
        self.folder = folder
        self.devices = tuple(devices)
        self.slots = slots
        self._clock = clock

    def acquire(self, request: LeaseRequest) -> Granted | LeaseWaiting:
        """Take what is asked for, or queue for it; waits only for the book.

        A lease already held under the name is returned as it is. A place in the queue is kept until it is
        released or this process ends; a later process that asks with the same ticket has the same place.
        Raises `LeaseError` when the machine could never give as much.
        """
        me = trees.identify()
        with lease_book.opened(self.folder) as book:
            book.drop_ended()
            if holder := book.held.get(request.name):
                return Granted(holder.devices, holder.slots)
            waiting = [other for other, _ in book.waiting.values()]
            decision = decide(request, [*book.held.values()], waiting, devices=self.devices, slots=self.slots)
            if isinstance(decision, LeaseWaiting):
                book.waiting[request.name] = (request, me)
                return decision
            book.waiting.pop(request.name, None)
            book.held[request.name] = LeaseHolder(
                name=request.name,
                label=request.label,
                devices=decision.devices,
                slots=decision.slots,
                since=self._clock(),
                identity=me,
            )
            return decision

    def require_possible(self, request: LeaseRequest) -> None:
        """Raise `LeaseError` when the machine could never give as much."""
        require_possible(request, self.devices, self.slots)

    def hand_over(
        self, name: str, identity: ProcessIdentity, *, marker: tuple[str, str] | None = None
    ) -> Granted:
        """Make another process the holder; raises `LeaseError` when nothing is held under the name.

        To be called by the new holder itself before it starts its work, which it must leave alone on that
        error: the process that asked may have died in between, and somebody else may hold the devices. While
        any process with the environment variable ``marker`` runs, the lease is held.
        """
        with lease_book.opened(self.folder) as book:
            if name not in book.held:
                raise LeaseError(f"the lease of {name} is no longer held; ask for it again")
            holder = dataclasses.replace(book.held[name], identity=identity, marker=marker)
            book.held[name] = holder
        return Granted(holder.devices, holder.slots)

    def release(self, name: str) -> None:
        """Give up the lease, or the place in the queue; may be called again."""
        with lease_book.opened(self.folder) as book:
            book.held.pop(name, None)
            book.waiting.pop(name, None)

    def holders(self) -> list[LeaseHolder]:
        """Who holds what now."""
        with lease_book.opened(self.folder) as book:
            book.drop_ended()
            return list(book.held.values())


def default_folder(environ: Mapping[str, str]) -> Path:
    """Where the leases of this user's programs are kept.

    Not the run-time folder of the login session: it differs between a session and a batch job, and is removed
    at logout while the work goes on. A home that several machines share is fine, each boot has its own book.
    """
    if named := environ.get(FOLDER):
        return Path(named)
    return homes.base("XDG_STATE_HOME", ".local/state", environ) / "nemo-runs" / "leases"


def environment(name: str, granted: Granted) -> dict[str, str]:
    """Variables for work that runs under a lease.

    ``CUDA_VISIBLE_DEVICES`` is among them only when devices were leased: where none are known, work may look
    for itself.
    """
    devices = {"CUDA_VISIBLE_DEVICES": ",".join(granted.devices)} if granted.devices else {}
    return {INSIDE: name, **devices}


def is_inside(environ: Mapping[str, str]) -> bool:
    """Whether this process is part of work that holds a lease.

    What such work starts lives on its lease: queueing for more, it might wait for its starter.
    """
    return bool(environ.get(INSIDE))


def found_slots(environ: Mapping[str, str] | None = None) -> int:
    """How many CPU slots this machine has: what the variable `SLOTS` says, else its usable cores.

    Raises `LeaseError` when the variable holds something else than a number.
    """
    named = (os.environ if environ is None else environ).get(SLOTS)
    if named:
        if not (named.isascii() and named.isdecimal() and int(named)):
            raise LeaseError(
                f"the environment variable {SLOTS} is {named!r}; it must be a whole number from 1"
            )
        return int(named)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
