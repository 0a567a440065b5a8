"""Who may have which devices and slots: a decision from the leases held and the requests that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemo_runs.errors import LeaseError
from nemo_runs.processes.trees import ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
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
class LeaseWaiting:
    """Nothing is held; ask again."""

    reason: str
    """A sentence that names the holders."""
    position: int
    """1 = next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """Who holds what."""

    name: str
    label: str
    devices: tuple[str, ...]
    slots: int
    since: float
    """UTC seconds since the epoch."""
    identity: ProcessIdentity
    marker: tuple[str, str] | None = None
    """A variable that all processes of the work have in their environment."""

    @property
    def title(self) -> str:
        """What people read."""
        return f"{self.label}/{self.name}"


def ticket(at: float, sequence: int = 0) -> str:
    """A place in the queue by time (seconds of `nemo_runs.boot_clock.uptime`) and, within it, by number."""
    return f"{round(at * 1e6):020d}-{sequence:012d}"


def decide(
    request: LeaseRequest,
    held: Sequence[LeaseHolder],
    waiting: Sequence[LeaseRequest],
    *,
    devices: Sequence[str],
    slots: int,
) -> Granted | LeaseWaiting:
    """Grant a request, or say why it waits.

    Requests before it (the smaller tickets in ``waiting``) keep what they wait for, and a later one gets only
    what they leave over: so a large request is never starved by small ones. One that waits for its label's
    cap keeps nothing, and one that waits for devices keeps no slots. Raises `LeaseError` for
    what ``devices`` and ``slots`` could never hold.
    """
    require_possible(request, devices, slots)
    taken = {device for holder in held for device in holder.devices}
    free = [device for device in devices if device not in taken]
    free_slots = slots - sum(holder.slots for holder in held)
    before = [other for other in waiting if _order(other) < _order(request) and other.name != request.name]
    position = len(before) + 1
    if _capped(request, held):
        return LeaseWaiting(_cap_sentence(request, held), position)
    kept = [other for other in before if not _capped(other, held)]
    left, left_slots = len(free), free_slots
    for other in kept:
        left_slots -= other.slots if _fits(other.devices, left) else 0
        left -= other.devices
    if _fits(request.devices, left) and _fits(request.slots, left_slots):
        return Granted(tuple(free[: request.devices]), request.slots)
    if _fits(request.devices, len(free)) and _fits(request.slots, free_slots):
        names = ", ".join(f"{other.label}/{other.name}" for other in kept)
        return LeaseWaiting(f"waiting for its turn, behind {names}", position)
    lacks_devices = not _fits(request.devices, len(free))
    return LeaseWaiting(_lack_sentence(request, held, devices, slots, lacks_devices=lacks_devices), position)


def _fits(wanted: int, left: int) -> bool:
    return wanted == 0 or wanted <= left


def _order(request: LeaseRequest) -> tuple[str, str]:
    return request.ticket, request.name


def _capped(request: LeaseRequest, held: Sequence[LeaseHolder]) -> bool:
    return request.cap is not None and sum(holder.label == request.label for holder in held) >= request.cap


def require_possible(request: LeaseRequest, devices: Sequence[str], slots: int) -> None:
    """Raise `LeaseError` for what a machine with these devices and slots could never hold."""
    asks = f"{request.label}/{request.name} asks for"
    if min(request.devices, request.slots) < 0 or (request.cap is not None and request.cap < 1):
        raise LeaseError(f"{asks} a negative number of something, or may hold nothing at all")
    if request.devices > len(devices):
        there = f"has {len(devices)} ({', '.join(devices)})" if devices else "has none"
        raise LeaseError(f"{asks} {_count(request.devices, 'GPU device')}, and this machine {there}")
    if request.slots > slots:
        raise LeaseError(f"{asks} {_count(request.slots, 'CPU slot')}, and this machine has {slots}")


def _cap_sentence(request: LeaseRequest, held: Sequence[LeaseHolder]) -> str:
    names = ", ".join(holder.name for holder in held if holder.label == request.label)
    return f"{request.label} may run {request.cap} at once, and these run: {names}"


def _lack_sentence(
    request: LeaseRequest,
    held: Sequence[LeaseHolder],
    devices: Sequence[str],
    slots: int,
    *,
    lacks_devices: bool,
) -> str:
    if lacks_devices:
        there = set(devices)
        holds = [
            f"{device} is held by {holder.title}"
            for holder in held
            for device in holder.devices
            if device in there
        ]
        return f"waiting for {_count(request.devices, 'GPU device')}: {', '.join(holds)}"
    holders = ", ".join(
        f"{holder.title} ({holder.slots})" if holder.slots > 1 else holder.title
        for holder in held
        if holder.slots
    )
    used = sum(holder.slots for holder in held)
    return f"waiting for {_count(request.slots, 'CPU slot')}: {used} of {slots} are held by {holders}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
