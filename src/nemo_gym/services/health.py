"""When a service is healthy: a process of it listens, and it answers with the model that is expected.

Both matter. A server that somebody else left on the port answers health checks as well as ours does, and
scores would then be another model's. A service whose process ends, ends the wait at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from nemo_gym.errors import GymError

_LOOK = 0.05
"""Seconds between two looks at the service's process."""
_BETWEEN_PROBES = 0.1, 0.5
"""Seconds between two probes: at first, so that a quick service is not waited for, and after five seconds."""
_QUICK = 5.0
_WRONG_MODEL_TIMEOUT = 10.0
"""Seconds after which other models' names are believed; a router may fill its list one by one."""


class ProbeResult(StrEnum):
    """What one probe found."""

    HEALTHY = "healthy"
    NOT_YET = "not yet"
    WRONG_MODEL = "wrong model"


@dataclass(frozen=True, slots=True)
class Probe:
    """The outcome of one probe with a clause for a person, such as ``/health answers 503``."""

    found: ProbeResult
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """The service that is waited for."""

    name: str
    timeout: float
    """Seconds."""
    log: str
    """Where its output is, for messages."""


class ServiceDiedError(GymError):
    """The service's process ended while it was waited for."""


class UnhealthyError(GymError):
    """The service did not become healthy in time, or answers as a different model."""


class Watched(Protocol):
    """A service as the wait sees it."""

    def alive(self) -> bool:
        """Whether its first process still runs."""
        ...

    def probe(self) -> Probe | None:
        """The outcome of a probe once there is one; starts a probe when none is under way."""
        ...


def wait_until_healthy(
    target: Target,
    service: Watched,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when the service is healthy; raises `ServiceDiedError` or `UnhealthyError`."""
    begun = clock()
    deadline = begun + target.timeout
    last = Probe(ProbeResult.NOT_YET, "it has not answered yet")
    wrong_since: float | None = None
    next_probe = clock()
    while True:
        if not service.alive():
            raise ServiceDiedError(f"service '{target.name}' ended before it was healthy; see {target.log}")
        now = clock()
        answer = service.probe() if now >= next_probe else None
        if answer is not None:
            if answer.found is ProbeResult.HEALTHY:
                return
            last, next_probe = answer, now + _BETWEEN_PROBES[now - begun >= _QUICK]
            wrong_since = _since(answer, wrong_since, now)
        if now >= deadline or (wrong_since is not None and now - wrong_since >= _WRONG_MODEL_TIMEOUT):
            raise UnhealthyError(_refusal(target, last, timed_out=now >= deadline))
        sleep(_LOOK)


def judge_models(expected: str, names: Sequence[str]) -> Probe:
    """Whether the names in ``/v1/models`` hold the expected one; an empty list is not an answer yet."""
    if not expected or expected in names:
        return Probe(ProbeResult.HEALTHY)
    if not names:
        return Probe(ProbeResult.NOT_YET, "/v1/models names no model")
    shown = ", ".join(f"'{name}'" for name in names[:5])
    return Probe(ProbeResult.WRONG_MODEL, f"/v1/models names {shown}, not '{expected}'")


def _since(answer: Probe, wrong_since: float | None, now: float) -> float | None:
    if answer.found is not ProbeResult.WRONG_MODEL:
        return None
    return now if wrong_since is None else wrong_since


def _refusal(target: Target, last: Probe, *, timed_out: bool) -> str:
    after = f"within {target.timeout:g} s" if timed_out else "as the model that is expected"
    return f"service '{target.name}' did not become healthy {after}: {last.detail}; see {target.log}"
