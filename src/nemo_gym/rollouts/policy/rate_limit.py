"""No minute with more requests or tokens than an endpoint allows: each request waits for its turn.

What counts is the last 60 seconds at any moment, so a minute that begins anywhere is within the limits. The
server's own count of tokens is taken once an answer is there; until then a request counts with an estimate: a
token for each four bytes of it, and an answer as long as those before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from nemo_gym.rollouts.policy.errors import PolicyError

WINDOW: Final = 60.0
"""Seconds."""
_BYTES_A_TOKEN: Final = 4
_FIRST_ANSWER: Final = 256
"""Tokens of an answer, before there was one."""


@dataclass(slots=True)
class SentRequest:
    """One request within the window."""

    at: float
    """When it was sent, in seconds of the clock."""
    asked: int
    """Tokens of the question, estimated."""
    tokens: int
    """Of question and answer, estimated until the server has counted them."""


class RateLimit:
    """Keeps the requests of one endpoint below a number of requests and of tokens a minute.

    ``pause(seconds)`` waits and returns ``True`` if the wait was cut short because the run is stopping.
    """

    def __init__(
        self,
        *,
        requests: int | None,
        tokens: int | None,
        monotonic: Callable[[], float],
        pause: Callable[[float], Awaitable[bool]],
    ) -> None:
        self._requests = requests
        self._tokens = tokens
        self._monotonic = monotonic
        self._pause = pause
        self._sent: deque[SentRequest] = deque()
        self._sum = 0
        self._answers = self._answered = 0

    async def admit(self, size: int) -> SentRequest:
        """Wait until a request of ``size`` bytes may be sent. One that is larger than the limit goes alone.

        Raises `PolicyError` where the run stops meanwhile: the request was not sent.
        """
        while True:
            asked = size // _BYTES_A_TOKEN
            wait = self._wait(asked + self._answer())
            if wait <= 0:
                break
            if await self._pause(wait):
                raise PolicyError(
                    "agent_request_failed",
                    "the request was not sent: it waited for its turn within the limits a minute when the "
                    "run was stopped.",
                )
        request = SentRequest(self._monotonic(), asked, asked + self._answer())
        self._sent.append(request)
        self._sum += request.tokens
        return request

    def settle(self, request: SentRequest, tokens: int) -> None:
        """Count a request with the ``tokens`` of question and answer that the server has counted."""
        self._sum += tokens - request.tokens
        request.tokens = tokens
        self._answers += max(0, tokens - request.asked)
        self._answered += 1

    def _answer(self) -> int:
        return self._answers // self._answered if self._answered else _FIRST_ANSWER

    def _wait(self, tokens: int) -> float:
        """Seconds until a request of so many tokens is within the limits; 0 if it is."""
        now = self._monotonic()
        while self._sent and self._sent[0].at + WINDOW <= now:
            self._sum -= self._sent.popleft().tokens
        if not self._sent:
            return 0.0
        free_at = now
        if self._requests is not None and len(self._sent) >= self._requests:
            free_at = self._sent[len(self._sent) - self._requests].at + WINDOW
        if self._tokens is not None:
            over = self._sum + tokens - self._tokens
            for request in self._sent:
                if over <= 0:
                    break
                over -= request.tokens
                free_at = max(free_at, request.at + WINDOW)
        return max(0.0, free_at - now)
