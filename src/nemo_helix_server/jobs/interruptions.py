"""How long a place leaves a step alone: measured from the ends of its allocations, presumed before. Pure.

A place is an execution profile, with the partition that it names. Only interruptions that come without notice
count: ahead of an announced one a training saves, which costs it no step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nemo_trainer.contract import PRESUMED_BETWEEN_INTERRUPTIONS

DAYS = 90
"""How many days back allocations count: a cluster changes."""
ENOUGH = 3
"""From so many interruptions on, or so many times the presumed time without, what was seen decides."""

Basis = Literal["given", "measured", "presumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenInterruptions:
    """What the allocations of a place came to, of its newest days."""

    allocations: int = 0
    interruptions: int = 0
    """How many of them ended without notice."""
    seconds: float = 0.0
    """For how many seconds they ran, together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedInterruptions:
    """How often a start must expect to lose its place, and why that is believed."""

    seconds: float
    """Mean time until an interruption without notice."""
    basis: Basis
    """``given`` in the execution profile, ``measured`` there, or ``presumed``."""
    place: str
    seen: SeenInterruptions

    @property
    def known(self) -> float | None:
        """What a training is given; `None`: nothing, and it presumes the same by itself."""
        return None if self.basis == "presumed" else self.seconds

    def to_json(self) -> dict[str, Any]:
        """For the details of the step."""
        seen = self.seen
        return {
            "seconds": round(self.seconds, 1),
            "basis": self.basis,
            "place": self.place,
            "allocations_seen": seen.allocations,
            "interruptions_seen": seen.interruptions,
            "seconds_seen": round(seen.seconds, 1),
        }


def expected(place: str, given: float | None, seen: SeenInterruptions) -> ExpectedInterruptions:
    """What to expect at a place whose profile says ``given``, or nothing.

    What is presumed counts like one interruption after that time, so that a few that were seen do not decide
    alone, and a place that never interrupted is not expected never to.
    """
    presumed = PRESUMED_BETWEEN_INTERRUPTIONS
    if given is not None:
        return ExpectedInterruptions(seconds=given, basis="given", place=place, seen=seen)
    if seen.interruptions < ENOUGH and seen.seconds < ENOUGH * presumed:
        return ExpectedInterruptions(seconds=presumed, basis="presumed", place=place, seen=seen)
    mean = (presumed + seen.seconds) / (1 + seen.interruptions)
    return ExpectedInterruptions(seconds=mean, basis="measured", place=place, seen=seen)
