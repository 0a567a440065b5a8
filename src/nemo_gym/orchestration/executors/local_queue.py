"""When a job may start: its turn among the jobs of one run directory, then its share of the machine.

At most so many jobs of a run directory run at once, in the order of their numbers. Locks on files carry these
turns, so that a job whose supervisor was killed neither holds nor waits for one: a lock dies with its
process, since descriptors are not inherited and supervisors never fork. The machine is shared by leases.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from nemo_runs import boot_clock, file_locks
from nemo_runs.errors import RunsError
from nemo_runs.leases import machine_leases
from nemo_runs.processes import trees

_WAITING = "waiting-"
_RUNNING = "running-"
_LABEL = "gym"


class QueueTurn:
    """One job's place: it waits by a ticket, `take` turns that into a slot, `leave` gives either up."""

    def __init__(self, folder: Path, number: int, slots: int) -> None:
        """Take a ticket; ``number`` orders the tickets, ``slots`` is how many jobs may run at once."""
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._slots = slots
        self._ticket = folder / f"{_WAITING}{number:012}"
        self._held = file_locks.acquire(self._ticket, wait=False, mode=0o644)
        self._slot: int | None = None

    def take(self) -> bool:
        """Whether this job may run now; asked again and again until it is true."""
        if self._slot is None and not self._somebody_before():
            self._slot = self._free_slot()
            if self._slot is not None:
                self._drop_ticket()
        return self._slot is not None

    def leave(self) -> None:
        """Give up the place, or the ticket."""
        self._drop_ticket()
        if self._slot is not None:
            os.close(self._slot)
            self._slot = None

    def _drop_ticket(self) -> None:
        if self._held is not None:
            self._ticket.unlink(missing_ok=True)
            os.close(self._held)
            self._held = None

    def _somebody_before(self) -> bool:
        names = sorted(name for name in os.listdir(self._folder) if name.startswith(_WAITING))
        return any(file_locks.is_held(self._folder / name) for name in names if name < self._ticket.name)

    def _free_slot(self) -> int | None:
        for number in range(self._slots):
            descriptor = file_locks.acquire(self._folder / f"{_RUNNING}{number}", wait=False, mode=0o644)
            if descriptor is not None:
                return descriptor
        return None


class MachineShare:
    """The devices and CPU slots of one job, leased from the pool that all programs of the user share.

    A job that was started from inside a leased piece of work takes nothing of its own, since that may wait
    for it. A job that needs GPUs where none are found takes no device.
    """

    def __init__(self, name: str, *, gpus: int, slots: int, environ: Mapping[str, str]) -> None:
        """``name`` is shown in the list of holders; the place in the queue is that of this moment."""
        self.reason = ""
        """What it waits for, a sentence."""
        self._name = name
        self._granted: machine_leases.Granted | None = None
        inside = machine_leases.is_inside(environ)
        devices = machine_leases.found_devices(environ) if gpus and not inside else ()
        self._pool = machine_leases.Pool(
            machine_leases.default_folder(environ), devices, machine_leases.found_slots(environ)
        )
        self._request = machine_leases.LeaseRequest(
            name=name,
            label=_LABEL,
            devices=min(gpus, len(devices)),
            slots=min(slots, self._pool.slots),
            ticket=machine_leases.ticket(boot_clock.uptime()),
        )
        self._needless = inside or (self._request.devices == 0 and self._request.slots == 0)

    def take(self) -> bool:
        """Whether the share is held; asked again and again until it is true."""
        if self._needless or self._granted is not None:
            return True
        try:
            answer = self._pool.acquire(self._request)
        except RunsError as error:
            self.reason = str(error)
            return False
        except OSError as error:
            sys.stderr.write(f"supervisor: nothing can be leased here, so the job runs without: {error}\n")
            self._needless = True
            return True
        if isinstance(answer, machine_leases.LeaseWaiting):
            self.reason = answer.reason
            return False
        self._granted, self.reason = answer, ""
        return True

    def mark(self, marker: tuple[str, str]) -> None:
        """Hold the share as long as anything with this variable in its environment runs."""
        if self._granted is not None:
            self._quietly(lambda: self._pool.hand_over(self._name, trees.identify(), marker=marker))

    @property
    def environment(self) -> dict[str, str]:
        """Variables that name to the job what it holds."""
        return {} if self._granted is None else machine_leases.environment(self._name, self._granted)

    def leave(self) -> None:
        """Give up the share, or the place in the queue."""
        if not self._needless:
            self._quietly(lambda: self._pool.release(self._name))

    def _quietly(self, action: Callable[[], object]) -> None:
        """The end of this process ends its lease in any case: the job must not fail because of the book."""
        try:
            action()
        except (OSError, RunsError) as error:
            sys.stderr.write(f"supervisor: {error}\n")
