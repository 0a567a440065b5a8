"""When a request is sent again: bounded tries, full jitter, Retry-After within a bound. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nemo_gym.rollouts.policy.errors import PolicyError

MAX_TIMEOUTS = 2
"""A request that ran into its whole timeout twice is given up: a third wait as long helps nobody."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds of one request to a model; times in seconds."""

    timeout: float = 600.0
    """For one try, connecting included."""
    attempts: int = 5
    first_delay: float = 0.5
    longest_delay: float = 30.0
    longest_retry_after: float = 60.0
    """A server that asks for a longer wait is asked again after this one."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.timeout <= 0:
            raise ValueError("a request needs at least one attempt and a timeout above zero")


def delay_before_retry(
    error: PolicyError,
    *,
    attempt: int,
    timeouts: int,
    limits: RequestLimits,
    uniform: Callable[[float, float], float],
) -> float | None:
    """Seconds to wait before trying again, or ``None`` to give up.

    ``attempt`` counts the tries so far, ``timeouts`` those of them that timed out. The delay is drawn evenly
    from zero to a bound that doubles each time (full jitter): a thousand workers do not come back at once.
    """
    if attempt >= limits.attempts or timeouts >= MAX_TIMEOUTS or not error.worth_retrying:
        return None
    bound = min(limits.longest_delay, limits.first_delay * 2.0 ** (attempt - 1))
    if error.retry_after is None:
        return uniform(0.0, bound)
    return min(error.retry_after, limits.longest_retry_after) + uniform(0.0, limits.first_delay)
