"""Leases of a machine's GPU devices and CPU slots, shared by every program of one user.

The book of leases is one file a boot, changed under a lock and replaced by rename. A lease belongs to a
process (pid, start time, boot); it ends when it is released, or when its holder is proven dead and nothing
with its marker runs any more. Requests are served first in, first out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_runs.processes import ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a piece of work needs, all of it at once."""

    name: str
    """Names the lease; asking again under the same name is the same request."""
    label: str
    """Whose work it is (a workspace), for the cap and for people."""
    devices: int = 0
    slots: int = 1
    ticket: str
    """Its place in the queue, smallest first, see `ticket`; comparable among all programs of the user."""
    cap: int | None = None
    """How many leases may be held under its label at once; `None` = any number."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease is held by the process that asked until it is handed over."""

    devices: tuple[str, ...]
    """Names for ``CUDA_VISIBLE_DEVICES``."""
    slots: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing is held; ask again."""

    reason: str
    """A sentence that names the holders."""
    position: int
    """1 = next."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds what."""

    name: str
    label: str
    devices: tuple[str, ...]
    slots: int
    since: float
    """UTC seconds since the epoch."""
    identity: ProcessIdentity


class Pool:
    """The devices and slots of this machine, as far as this program may lease them."""

    def __init__(self, folder: Path, devices: Sequence[str], slots: int) -> None:
        """``folder`` is the same for all programs of the user, see `default_folder`."""

    def acquire(self, request: Request) -> Granted | Waiting:
        """Take what is asked for, or queue for it; never blocks for long.

        A lease already held under the name is returned as it is. Raises `LeaseError` when the machine could
        never give as much.
        """
        raise NotImplementedError

    def hand_over(
        self, name: str, identity: ProcessIdentity, *, marker: tuple[str, str] | None = None
    ) -> Granted:
        """Make another process the holder; raises `LeaseError` when nothing is held under the name.

        To be called by the new holder itself before it starts its work: the process that asked may die in
        between. As long as any process with the environment variable ``marker`` runs, the lease is held.
        """
        raise NotImplementedError

    def release(self, name: str) -> None:
        """Give up the lease, or the place in the queue; may be called again."""
        raise NotImplementedError

    def holders(self) -> list[Holder]:
        """Who holds what now."""
        raise NotImplementedError


def ticket(at: float, sequence: int = 0) -> str:
    """A place in the queue by time (UTC seconds) and, within it, by number."""
    return f"{round(at * 1e6):020d}-{sequence:012d}"


def default_folder(environ: Mapping[str, str]) -> Path:
    """Where the leases of this user's programs are kept."""
    raise NotImplementedError


def found_devices(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The GPUs of this machine that may be used."""
    raise NotImplementedError


def found_slots() -> int:
    """How many CPU cores this process may use."""
    raise NotImplementedError
