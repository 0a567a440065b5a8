"""The jobs of a benchmark one after the other: how long each waited, loaded and worked, and why it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nemo_gym.chain.evidence import Evidence, Link
from nemo_gym.orchestration.results.bill import Bill, LinkBill
from nemo_gym.orchestration.status.info import decided, link_cells

QUEUED: Final = "queued"
PARTS: Final = {
    QUEUED: "queued",
    "start": "start-up",
    "useful": "useful",
    "drained": "drained",
    "lost": "lost",
    "idle": "idle",
}
"""The parts of a bar, in their order, and what each is called."""
_OWNERS: Final = {
    "start": ("install", "load"),
    "useful": ("useful",),
    "drained": ("drained_tail",),
    "lost": ("repeated",),
    "idle": ("idle",),
}


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """A stretch of a job's time."""

    kind: str
    """A key of `PARTS`."""
    seconds: float
    left: float
    width: float
    """In percent of the whole timeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLink:
    """One run of one job."""

    name: str
    started: float | None
    """UTC seconds."""
    ended: float | None
    scheduler: str
    """The scheduler's word for its end or state."""
    end: str
    """What the job said of its end."""
    cause: str
    """What the job after it decided from that end; of the last one, what the benchmark's state says."""
    successor: str
    parts: list[TimelinePart]
    """Empty while the bill is not known."""


def timeline(known: Evidence, reason: str, bill: Bill | None) -> list[TimelineLink]:
    """All runs in their order; ``reason`` is that of the benchmark's state."""
    billed = {link.name: link for link in bill.links} if bill is not None else {}
    begin = min((link.start - link.queue for link in billed.values()), default=0)
    span = max((link.end for link in billed.values()), default=0) - begin or 1
    found = []
    for number, link in enumerate(known.links):
        following = known.links[number + 1] if number + 1 < len(known.links) else None
        cause = decided(known, following) if following is not None else reason
        found.append(_link(known, link, cause, billed.get(link.name), begin, span))
    return found


def _link(
    known: Evidence, link: Link, cause: str, billed: LinkBill | None, begin: int, span: int
) -> TimelineLink:
    _, _, _, word, successor = link_cells(known, link)
    end = ""
    if link.end is not None:
        end = f"{link.end.outcome} (exit status {link.end.status})"
        end += f": {link.end.reason}" if link.end.reason else ""
    return TimelineLink(
        name=link.name,
        started=link.started,
        ended=billed.end / 1000 if billed is not None and billed.ended else None,
        scheduler=word if word != "-" else "",
        end=end,
        cause=" ".join(cause.split()),
        successor=successor if successor != "-" else "",
        parts=_parts(billed, begin, span) if billed is not None else [],
    )


def _parts(link: LinkBill, begin: int, span: int) -> list[TimelinePart]:
    """Queued before the start; from there the owners of its time in the order of `PARTS`."""
    lengths = {QUEUED: link.queue}
    lengths |= {kind: sum(link.owners[owner] for owner in owners) for kind, owners in _OWNERS.items()}
    at, found = link.start - link.queue, []
    for kind in PARTS:
        length = lengths[kind]
        if length > 0:
            left, width = 100 * (at - begin) / span, 100 * length / span
            found.append(TimelinePart(kind, length / 1000, round(left, 3), round(width, 3)))
        at += length
    return found
