"""No 60 seconds hold more requests or tokens than are allowed, and no room is wasted."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from nemo_gym.rollouts.policy.errors import PolicyError
from nemo_gym.rollouts.policy.rate_limit import WINDOW, RateLimit
from nemo_runs.clock import MovableClock


class Waits:
    """A clock that is moved by waiting."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.stopped = False

    async def pause(self, seconds: float) -> bool:
        if not self.stopped:
            self.clock.advance(seconds)
        return self.stopped

    def limit(self, requests: int | None = None, tokens: int | None = None) -> RateLimit:
        return RateLimit(requests=requests, tokens=tokens, monotonic=self.clock.monotonic, pause=self.pause)


def busiest(times: list[tuple[float, int]]) -> tuple[int, int]:
    """Most requests and most tokens that any 60 seconds hold."""
    windows = [[tokens for at, tokens in times if start <= at < start + WINDOW] for start, _ in times]
    return max(map(len, windows)), max(map(sum, windows))


def test_so_many_requests_a_minute_and_not_one_fewer() -> None:
    waits = Waits()

    async def run() -> list[tuple[float, int]]:
        limit = waits.limit(requests=7)
        sent = []
        for _ in range(30):
            request = await limit.admit(40)
            sent.append((request.at, 0))
            waits.clock.advance(1.0)
        return sent

    sent = asyncio.run(run())
    assert busiest(sent)[0] == 7
    assert [round(at - sent[0][0]) for at, _ in sent[:9]] == [0, 1, 2, 3, 4, 5, 6, 60, 61]


@pytest.mark.parametrize("seed", range(5))
def test_tokens_are_counted_as_the_server_counts_them(seed: int) -> None:
    waits, chance = Waits(), random.Random(seed)

    async def run() -> list[tuple[float, int]]:
        limit = waits.limit(tokens=5_000)
        sent = []
        for _ in range(60):
            request = await limit.admit(400)
            tokens = chance.randrange(200, 900)
            waits.clock.advance(chance.uniform(0.1, 3.0))
            limit.settle(request, tokens)
            sent.append((request.at, tokens))
        return sent

    sent = asyncio.run(run())
    most = busiest(sent)[1]
    assert most <= 5_000 + 900  # the estimate of the last one may be too low, by one answer at most
    assert most > 4_000
    assert sent[-1][0] - sent[0][0] < 60 * 60 * 900 / 5_000


def test_one_request_larger_than_all_room_goes_alone_and_not_never() -> None:
    waits = Waits()

    async def run() -> list[float]:
        limit = waits.limit(tokens=10)
        return [(await limit.admit(4_000)).at for _ in range(3)]

    times = asyncio.run(run())
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [WINDOW, WINDOW]


def test_a_run_that_stops_sends_nothing_any_more() -> None:
    waits = Waits()

    async def run() -> None:
        limit = waits.limit(requests=1)
        await limit.admit(1)
        waits.stopped = True
        await limit.admit(1)

    with pytest.raises(PolicyError, match="the request was not sent") as caught:
        asyncio.run(run())
    assert not caught.value.of_endpoint
