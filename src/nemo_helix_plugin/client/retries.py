"""When a call is made again, and how long it waits before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tenacity

from nemo_helix_plugin.client import errors

LONGEST_RETRY_AFTER = 60.0
"""A service that asks for more is not waited for; the caller hears of it instead."""

_GATEWAY = frozenset({429, 502, 503, 504})
_PLATFORM = frozenset({408, 409, 429}) | frozenset(range(500, 600))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, after how long and after what a call is made again.

    The headers ``x-should-retry`` (which decides alone) and ``retry-after`` (up to 60 s) are obeyed.
    A request that the service may have seen is repeated only if that cannot do anything twice.
    """

    retries: int = 3
    backoff_seconds: float = 0.5
    """Before the first repetition; doubled for each one after it."""
    statuses: frozenset[int] = _GATEWAY

    @classmethod
    def platform(cls) -> RetryPolicy:
        """The policy of the command line: fewer times, after more kinds of answers."""
        return cls(retries=2, statuses=_PLATFORM)

    @classmethod
    def none(cls) -> RetryPolicy:
        """Never."""
        return cls(retries=0)

    def wants(self, error: BaseException, *, repeatable: bool) -> bool:
        """Whether a call that ended like this is made again; ``repeatable``: it cannot do anything twice."""
        if isinstance(error, errors.CertificateError):
            return False
        if isinstance(error, errors.NemoTransportError):
            return repeatable or not error.sent
        if not isinstance(error, errors.NemoHTTPError):
            return False
        if (error.retry_after or 0) > LONGEST_RETRY_AFTER:
            return False
        return error.status_code in self.statuses if error.should_retry is None else error.should_retry

    def pause(self, repetition: int, error: BaseException | None) -> float:
        """Seconds to wait before a repetition; the first one is number 0."""
        asked = error.retry_after if isinstance(error, errors.NemoHTTPError) else None
        return asked if asked is not None else self.backoff_seconds * 2.0**repetition

    def arguments(self, *, repeatable: bool, sleep: Callable[[float], Any]) -> dict[str, Any]:
        """Arguments of `tenacity.Retrying` and `tenacity.AsyncRetrying` that make them follow this policy."""

        def wait(state: tenacity.RetryCallState) -> float:
            failure = state.outcome.exception() if state.outcome else None
            return self.pause(state.attempt_number - 1, failure)

        return {
            "stop": tenacity.stop_after_attempt(self.retries + 1),
            "retry": tenacity.retry_if_exception(lambda error: self.wants(error, repeatable=repeatable)),
            "wait": wait,
            "sleep": sleep,
            "reraise": True,
        }
