"""A request goes to one of several servers of a model, and at once to another where that one fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nemo_gym.rollouts.policy.errors import PolicyError
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.rollouts.policy.replicas import Replicas
from nemo_runs.counts import counted

_OF_SERVER = frozenset({"transport_unreachable", "transport_peer_drop", "transport_timeout"})
_GATEWAY = frozenset({502, 503, 504})

_Place = TypeVar("_Place")
_Answer = TypeVar("_Answer")


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
        """What ``send`` gives at one of the places, which stand in the order of the addresses.

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
