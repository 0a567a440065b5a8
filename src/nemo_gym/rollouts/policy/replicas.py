"""Which of several servers of one model gets a request: the least busy one that is well.

A server that fails is left out for a second, then for two, and so on up to a minute; after such a pause one
request tries it. As long as none is well, the one whose pause ends first is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nemo_gym.rollouts.policy.errors import PolicyError
from nemo_gym.rollouts.policy.notices import Retries
from nemo_runs.counts import counted

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds for which a server that failed is left out."""
_OF_SERVER = frozenset({"transport_unreachable", "transport_peer_drop", "transport_timeout"})
_GATEWAY = frozenset({502, 503, 504})

_Place = TypeVar("_Place")
_Answer = TypeVar("_Answer")


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


@dataclass(slots=True)
class Turns:
    """Requests that belong together: they stay with one server, whose cache knows how they begin."""

    replica: int | None = None


class Delivery:
    """Sends each request to the least busy server that is well."""

    def __init__(self, shown: Sequence[str], *, retries: Retries, monotonic: Callable[[], float]) -> None:
        """``shown``: the addresses, as they may be printed."""
        self._shown = shown
        self._retries = retries
        self._replicas = Replicas(len(shown), monotonic=monotonic)

    async def deliver(
        self,
        places: Sequence[_Place],
        send: Callable[[_Place], Awaitable[_Answer]],
        turns: Turns,
        *,
        dropped: bool,
    ) -> _Answer:
        """What ``send`` gives at one of the places, in the order of the addresses.

        ``dropped``: whether a connection was closed under this request before. Raises the last `PolicyError`
        where none of the servers gives an answer.
        """
        for left in reversed(range(len(places))):
            number = turns.replica = self._replicas.pick(turns.replica)
            try:
                answer = await send(places[number])
            except PolicyError as error:
                if not self._another_may_do(number, error, dropped=dropped) or not left:
                    raise
                turns.replica = None
                self._retries.note(error.kind, str(error), 0.0)
            else:
                if self._replicas.answered(number):
                    self._retries.report(f"{self._shown[number]} answers again: it gets requests as before.")
                return answer
            finally:
                self._replicas.release(number)
        raise AssertionError("a request has a place to go to")

    def _another_may_do(self, number: int, error: PolicyError, *, dropped: bool) -> bool:
        """Whether an error is its server's alone, so that it rests and one of the others is asked."""
        if len(self._replicas) == 1 or not _of_server(error):
            return False
        if error.kind == "transport_peer_drop" and not dropped:
            return False  # most likely a keep-alive connection that the server had just closed
        is_new = self._replicas.failed(number)
        well = self._replicas.well
        if is_new:
            others = f"go to the {counted(well, 'other')} meanwhile" if well else "wait, for no other is well"
            self._retries.report(
                f"one of {len(self._replicas)} servers fails: {str(error).rstrip('.')}. Its requests "
                f"{others}; it is tried again."
            )
        return well > 0


def _of_server(error: PolicyError) -> bool:
    """Whether another server of the same model may well answer: this one is gone, hangs or is broken."""
    return error.kind in _OF_SERVER or error.http_status in _GATEWAY
