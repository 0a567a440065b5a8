"""Which of several servers of one model gets a request: the least busy one that is well. Pure.

A server that fails is left out for a second, then for two, and so on up to a minute; after such a pause one
request tries it. As long as none is well, the one whose pause ends first is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds for which a server that failed is left out."""


@dataclass(slots=True)
class _Replica:
    in_flight: int = 0
    failures: int = 0
    """Since it last answered."""
    pause_ends: float = 0.0


class Replicas:
    """The servers by number, from 0; one who picks a number has to give it back by `release`."""

    def __init__(self, count: int, *, monotonic: Callable[[], float]) -> None:
        if count < 1:
            raise ValueError("a model needs at least one server")
        self._replicas = [_Replica() for _ in range(count)]
        self._monotonic = monotonic

    def __len__(self) -> int:
        return len(self._replicas)

    def pick(self, kept: int | None = None) -> int:
        """The number for one more request; ``kept``: the one to stay with while it is well."""
        now = self._monotonic()
        takes = [number for number, one in enumerate(self._replicas) if _takes(one, now)]
        if kept in takes:
            chosen = kept
        elif takes:
            chosen = min(takes, key=lambda number: self._replicas[number].in_flight)
        else:
            chosen = min(range(len(self)), key=lambda number: self._replicas[number].pause_ends)
        self._replicas[chosen].in_flight += 1
        return chosen

    def release(self, number: int) -> None:
        """The request has ended, however that was."""
        self._replicas[number].in_flight -= 1

    def answered(self, number: int) -> bool:
        """Note an answer; whether the server had failed before."""
        one = self._replicas[number]
        failures, one.failures = one.failures, 0
        return failures > 0

    def failed(self, number: int) -> bool:
        """Note that the server failed; whether it was well until now.

        Further requests that were under way then fail with it: a server that is left out already is not
        left out for longer.
        """
        one, now = self._replicas[number], self._monotonic()
        if one.failures and now < one.pause_ends:
            return False
        one.failures += 1
        one.pause_ends = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(one.failures - 1, 10))
        return one.failures == 1

    @property
    def well(self) -> int:
        """How many have not failed since they last answered."""
        return sum(not one.failures for one in self._replicas)


def _takes(one: _Replica, now: float) -> bool:
    """Whether it may get a request: it is well, or its pause is over and nobody tries it yet."""
    return not one.failures or (now >= one.pause_ends and not one.in_flight)
