"""What allocated time went into. Pure: every allocated millisecond of a link has exactly one owner.

Of a link (one run of one job), in this order of time:

``install``
    until the first service or, without services, the driver is started: prologue, installing, preparing data.
``load``
    from there until the first rollout is in flight: models load, the driver starts.
``useful``
    rollouts are in flight and at least as many of them are kept as fail.
``repeated``
    work that is done again: more attempts in flight fail than are kept, or the link was killed, and less than
    half of its slots (as many as it ever used) still hold rollouts that were recorded before it died.
``drained_tail``
    after the link was asked to stop, less than half of its slots hold rollouts that are kept.
``idle``
    nothing is in flight: pauses, adding up, stopping services, and what the scheduler counts but nobody saw.

``queue`` is waiting between links and before the first; nothing is allocated meanwhile. Times are whole
milliseconds of UTC. Where the scheduler's own count of a link is known (whole seconds, which leave suspension
out), it is what is billed: a difference of a second or more is added to, or taken from, what was seen. A
smaller one is the rounding of that count, and what was seen is billed to the millisecond.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nemo_gym.orchestration.results.bill_costs import BenchmarkCosts

OWNERS: Final = ("install", "load", "useful", "repeated", "drained_tail", "idle")
"""All owners of allocated time."""
TICK: Final = 100
"""Milliseconds; rollouts in flight are counted this finely."""

_COUNTED_IN: Final = 1000
"""Milliseconds: schedulers count in whole seconds."""
_TAKEN_FROM: Final = ("idle", "drained_tail", "repeated", "load", "install", "useful")


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledLink:
    """What is known about one run of one job."""

    name: str
    """``<job id>.<restart count>``."""
    start: int
    end: int
    """Its end, or its last sign of life."""
    ended: bool = True
    """Whether the end was seen, or another link came after it."""
    charged: int | None = None
    """What the scheduler counted: milliseconds, of whole seconds."""
    loading: int | None = None
    """When the first service was started."""
    driver: int | None = None
    """When the driver was started."""
    driver_ended: int | None = None
    """When the driver ended by itself; `None` when it was killed, or still runs."""
    driver_status: int | None = None
    stop_asked: int | None = None
    opaque: bool = False
    """Whether nothing is known about what the driver had in flight (a command of the user's)."""

    @property
    def killed(self) -> bool:
        """Whether it ended while its driver ran."""
        return self.ended and self.driver is not None and self.driver_ended is None


class InFlightCounts:
    """How many rollouts of a link were in flight, tick by tick: 4 bytes a tick, whatever their number."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.last = start
        """End of the last one."""
        self._changes = array("i")

    def add(self, begin: int, end: int) -> None:
        """Count a rollout that was in flight from ``begin`` to ``end``; what lies before the link is cut."""
        first = max(0, begin - self.start) // TICK
        until = max(first + 1, -((self.start - end) // TICK))
        if until >= len(self._changes):
            self._changes.extend(bytes(until + 1 - len(self._changes)))
        self._changes[first] += 1
        self._changes[until] -= 1
        self.last = max(self.last, end)

    def counts(self, ticks: int) -> list[int]:
        """The number in flight in each of the first ticks."""
        known = list(accumulate(self._changes[:ticks]))
        return known + [0] * (ticks - len(known))


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a link with one owner."""

    owner: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBill:
    """Where the time of one link went."""

    name: str
    start: int
    end: int
    ended: bool
    queue: int
    """Waiting before it, unallocated."""
    owners: dict[str, int]
    """Owner -> milliseconds; together exactly what is billed."""
    has_services: bool = True
    """Whether it started services of its own."""

    @property
    def allocated(self) -> int:
        """All of it."""
        return sum(self.owners.values())


@dataclass(frozen=True, slots=True)
class Saving:
    """Time that another way of running would not have needed."""

    cause: str
    milliseconds: int
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """One benchmark of a submission."""

    gym_job_id: str
    benchmark: str
    gpus: int | None
    """Of the allocation; `None` when nobody said."""
    links: list[LinkBill]
    notes: list[str] = field(default_factory=list)
    costs: BenchmarkCosts | None = None
    """In money, and the tokens; ``None``: not looked at."""

    @property
    def owners(self) -> dict[str, int]:
        """Owner -> milliseconds over all links."""
        return {owner: sum(link.owners[owner] for link in self.links) for owner in OWNERS}

    @property
    def queue(self) -> int:
        """Waiting before and between links."""
        return sum(link.queue for link in self.links)

    @property
    def allocated(self) -> int:
        """All that is billed, in milliseconds of the whole allocation."""
        return sum(link.allocated for link in self.links)

    @property
    def started_again(self) -> int:
        """Installing and loading in links after the first."""
        return sum(link.owners["install"] + link.owners["load"] for link in self.links[1:])


def bill_links(
    links: Sequence[BilledLink],
    submitted: int | None,
    kept: Sequence[InFlightCounts],
    lost: Sequence[InFlightCounts],
) -> list[LinkBill]:
    """Bill the links of one benchmark, which are in order of their start."""
    bills, free_since = [], submitted
    for link, good, bad in zip(links, kept, lost, strict=True):
        queue = 0 if free_since is None else max(0, link.start - free_since)
        owners = dict.fromkeys(OWNERS, 0)
        for segment in segments(link, good, bad):
            owners[segment.owner] += segment.end - segment.start
        bills.append(
            LinkBill(
                name=link.name,
                start=link.start,
                end=link.end,
                ended=link.ended,
                queue=queue,
                owners=_charge(owners, link.charged),
                has_services=link.loading is not None,
            )
        )
        free_since = max(link.end, link.end if free_since is None else free_since)
    return bills


def segments(link: BilledLink, kept: InFlightCounts, lost: InFlightCounts) -> list[Segment]:
    """Cut a link into stretches with one owner each, without gap or overlap from its start to its end."""
    found: list[Segment] = []
    at = link.start

    def until(owner: str, moment: int) -> None:
        nonlocal at
        moment = min(max(moment, at), link.end)
        if moment > at:
            if found and found[-1].owner == owner:
                found[-1] = Segment(owner, found[-1].start, moment)
            else:
                found.append(Segment(owner, at, moment))
            at = moment

    begun = [moment for moment in (link.loading, link.driver) if moment is not None]
    until("install", min(begun, default=link.end))
    if link.driver is None:
        until("load", link.end)
        return found
    driver_end = link.end if link.driver_ended is None else link.driver_ended
    if link.opaque:
        until("load", link.driver)
        until("useful" if link.driver_status in (0, 75) or not link.ended else "repeated", driver_end)
    else:
        for owner, moment in _collecting(link, kept, lost, driver_end):
            until(owner, moment)
    until("idle", link.end)
    return found


def _collecting(
    link: BilledLink, kept: InFlightCounts, lost: InFlightCounts, driver_end: int
) -> Iterable[tuple[str, int]]:
    """Owners with the moments until which they own, from the driver's start to its end."""
    ticks = max(0, -(-(min(link.end, max(kept.last, lost.last)) - link.start) // TICK))
    good, bad = kept.counts(ticks), lost.counts(ticks)
    busy = [tick for tick in range(ticks) if good[tick] or bad[tick]]
    if not busy:
        nothing_kept = "repeated" if link.killed else "load"
        yield "load", link.driver or link.start
        yield nothing_kept, driver_end
        return
    peak = max(good)
    full = [tick for tick in busy if 2 * good[tick] >= peak > 0]
    last_full = full[-1] if full else -1
    yield "load", link.start + busy[0] * TICK
    for tick in range(busy[0], ticks):
        begin = link.start + tick * TICK
        enough = 2 * good[tick] >= peak > 0
        if link.stop_asked is not None and begin >= link.stop_asked:
            owner = "useful" if enough else "drained_tail"
        elif link.killed and link.stop_asked is None and tick > last_full:
            owner = "repeated"
        elif not good[tick] and not bad[tick]:
            owner = "idle"
        else:
            owner = "useful" if good[tick] >= max(1, bad[tick]) else "repeated"
        yield owner, min(begin + TICK, driver_end)
    if link.stop_asked is not None:
        yield "drained_tail", driver_end
    elif link.killed:
        yield "repeated", driver_end
    elif not link.ended and link.driver_ended is None:
        yield "useful", driver_end  # what is in flight now will be known later


def _charge(owners: dict[str, int], charged: int | None) -> dict[str, int]:
    """Make the owners add up to what the scheduler counted, as finely as it counts."""
    rest = 0 if charged is None else charged - sum(owners.values())
    if abs(rest) < _COUNTED_IN:
        return owners
    if rest >= 0:
        return {**owners, "idle": owners["idle"] + rest}
    for owner in _TAKEN_FROM:
        taken = min(owners[owner], -rest)
        owners = {**owners, owner: owners[owner] - taken}
        rest += taken
    return owners


def savings(bills: Sequence[Bill]) -> list[Saving]:
    """What would have saved allocated time, most first; nothing that took none.

    Where no rollout was kept, nothing else is advised than to fix what ended it.
    """
    total = {owner: sum(bill.owners[owner] for bill in bills) for owner in OWNERS}
    if not total["useful"]:
        everything = sum(total.values())
        fix = "fix what ended it before anything else: `gym job status` says what that was"
        return [Saving("nothing_kept", everything, fix)] if everything else []
    services = any(link.has_services for bill in bills for link in bill.links)
    again = sum(bill.started_again for bill in bills)
    first = total["install"] + total["load"] - again
    more = sum(max(0, len(bill.links) - 1) for bill in bills)
    found = [
        Saving(
            "repeated",
            total["repeated"],
            "less work that is done again: let jobs drain well before their end, and look at what fails",
        ),
        Saving(
            "started_again",
            again,
            f"fewer, longer jobs: {more} of them started {'services ' if services else ''}once more",
        ),
        Saving(
            "start",
            first,
            "a quicker start: install and prepare beforehand"
            + (", keep models near the nodes" if services else ""),
        ),
        Saving("drained_tail", total["drained_tail"], "a later drain: its lead is long for these rollouts"),
        Saving(
            "idle",
            total["idle"],
            "no idle allocation: "
            + ("services stop slowly or the driver waits" if services else "the driver waits"),
        ),
    ]
    return sorted((s for s in found if s.milliseconds > 0), key=lambda s: -s.milliseconds)
