"""Which model answers at the endpoint of a run, asked before anything is asked of it."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp

from nemo_gym.rollouts.collect.drain import Drain
from nemo_gym.rollouts.policy.client import Endpoint
from nemo_gym.rollouts.policy.endpoint import EndpointError, ModelIdentity, check_servers
from nemo_gym.rollouts.run_config.schema import RunConfig


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
