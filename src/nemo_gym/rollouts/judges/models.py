"""The judge models of a run: asked like the policy model, counted apart.

A verifier gets them when it is built, before there is a connection; while a run is open they answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

from nemo_gym.rollouts.policy.backoff import RequestLimits
from nemo_gym.rollouts.policy.client import Endpoint, HttpPolicy, open_session
from nemo_gym.rollouts.policy.notices import Retries
from nemo_gym.types import LogLikelihood, Row, token_count


@dataclass(slots=True)
class JudgeUse:
    """What one grading took of one judge model."""

    requests: int = 0
    """Answered requests."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float = 0.0
    """Of all requests together, waiting for their turn included."""

    def to_json(self) -> dict[str, Any]:
        """As a row has it."""
        return {**asdict(self), "latency_ms": round(self.latency_ms, 3)}


_USES: ContextVar[dict[str, JudgeUse] | None] = ContextVar("judge_uses", default=None)


@contextlib.contextmanager
def counting_judges() -> Iterator[dict[str, JudgeUse]]:
    """Count, by name, what is asked of judge models within the block and the tasks that it starts."""
    uses: dict[str, JudgeUse] = {}
    token = _USES.set(uses)
    try:
        yield uses
    finally:
        _USES.reset(token)


class JudgeModel:
    """A `nemo_gym.types.Policy` that grades.

    ``params`` are put over those of each request. At most ``parallel`` requests are in flight.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        *,
        limits: RequestLimits,
        params: Mapping[str, Any],
        parallel: int,
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self._limits = limits
        self._params = dict(params)
        self.parallel = parallel
        self._policy: HttpPolicy | None = None
        self._turns = asyncio.Semaphore(parallel)

    @contextlib.asynccontextmanager
    async def opened(
        self, retries: Retries, pause: Callable[[float], Awaitable[bool]]
    ) -> AsyncIterator[None]:
        """Let it answer within the block."""
        async with open_session(self.endpoint, self._limits) as session:
            self._turns = asyncio.Semaphore(self.parallel)
            self._policy = HttpPolicy(session, self.endpoint, self._limits, retries=retries, pause=pause)
            try:
                yield
            finally:
                self._policy = None

    async def respond(self, params: Mapping[str, Any]) -> Row:
        """See `nemo_gym.types.Policy`."""
        policy = self._connected()
        started = time.perf_counter()
        async with self._turns:
            answer = await policy.respond({**params, **self._params})
        uses = _USES.get()
        if uses is not None:
            usage = answer.get("usage")
            usage = usage if isinstance(usage, dict) else {}
            use = uses.setdefault(self.name, JudgeUse())
            use.requests += 1
            use.prompt_tokens += token_count(usage.get("input_tokens"))
            use.completion_tokens += token_count(usage.get("output_tokens"))
            use.latency_ms += 1000 * (time.perf_counter() - started)
        return answer

    async def score(self, context: Sequence[int], continuation: Sequence[int]) -> LogLikelihood:
        """See `nemo_gym.types.Policy`; not counted."""
        policy = self._connected()
        async with self._turns:
            return await policy.score(context, continuation)

    def _connected(self) -> HttpPolicy:
        if self._policy is None:
            raise RuntimeError(f"the judge model '{self.name}' is not connected yet")
        return self._policy


@contextlib.asynccontextmanager
async def opened_judges(
    judges: Mapping[str, JudgeModel], retries: Retries, pause: Callable[[float], Awaitable[bool]]
) -> AsyncIterator[None]:
    """Let all of them answer within the block."""
    async with contextlib.AsyncExitStack() as stack:
        for judge in judges.values():
            await stack.enter_async_context(judge.opened(retries, pause))
        yield
