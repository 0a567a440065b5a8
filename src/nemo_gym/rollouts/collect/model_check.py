"""Which model answers at the endpoint of a run, and whether the server can do what the agent will ask for:
seen to before the first rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

import aiohttp
import orjson

from nemo_gym.rollouts.collect.drain import Drain
from nemo_gym.rollouts.policy.client import Endpoint, HttpPolicy, PolicyError
from nemo_gym.rollouts.policy.endpoint import EndpointError, ModelIdentity, check_servers
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.types import Agent

_PROBED_ROWS: Final = 100
_NOT_OFFERED: Final = frozenset({200, 400, 404, 405, 415, 422, 501})
"""Statuses with which a server says that it has no such route or takes no such request, or answers it with
something else."""
_CANNOT_SCORE: Final = (
    "policy_base_url: the benchmark asks for likelihoods, and this server gives no log-probability for each "
    "token of a prompt, as vLLM and `gym serve --likelihoods` do and llama.cpp's server does not"
)


async def found_model(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    config: RunConfig,
    *,
    drain: Drain,
    monotonic: Callable[[], float],
    report: Callable[[str], None],
) -> ModelIdentity | None:
    """Which model answers; ``None`` if it was not asked, or a stop came while it was waited for.

    Raises `EndpointError`, and `nemo_gym.errors.ConfigError` for a model that is not served there.
    """
    wait = config.model_endpoint_readiness_timeout_seconds
    if not wait:
        return None
    try:
        return await check_servers(
            session,
            endpoint,
            wait=wait,
            check_name=config.check_model,
            pause=drain.pause,
            monotonic=monotonic,
            report=report,
        )
    except EndpointError:
        if drain.poll():
            return None
        raise


async def check_agent(agent: Agent, rows: Callable[[], Iterable[bytes]], policy: HttpPolicy) -> None:
    """Let the agent see, with the first ``rows`` of the data, whether the server can do what it will ask for.

    Raises `EndpointError`.
    """
    probe = getattr(agent, "probe", None)
    if probe is None:
        return
    try:
        await probe((orjson.loads(line) for line in islice(rows(), _PROBED_ROWS)), policy)
    except PolicyError as error:
        if error.http_status in _NOT_OFFERED:
            raise EndpointError(f"{_CANNOT_SCORE}: {str(error).rstrip('.')}.") from error


async def agent_facts(agent: Agent) -> Mapping[str, str] | None:
    """What the agent says that answers depend on besides its options. Raises `GymError`."""
    facts = getattr(agent, "facts", None)
    return None if facts is None else dict(await facts())
