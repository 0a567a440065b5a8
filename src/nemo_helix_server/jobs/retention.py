"""How long the storage of a settled job is kept. A window starts when the job settled and is measured
from there, whatever is changed later; the platform's maximum holds for windows that were set before it, too.

What is shown is the date of its end, by the clock as it is set now. What counts is how long the job has
rested: a date that is set neither ends a window nor prolongs it, as long as the machine is not restarted.
"""

from __future__ import annotations

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.errors import InvalidError
from nemo_helix_server.jobs.ports import StorageLimits
from nemo_runs import clock as clocks
from nemo_runs.clock import SECOND, Clock
from nemo_runs.durations import duration_in_words

WITH_WINDOW = frozenset(status for status in Status if status.is_settled and status is not Status.COMPLETED)
"""A job in one of these keeps its storage for a window (a cancelled one's is 0); a completed one for good."""
RECLAIMABLE = frozenset(
    status
    for status in Status
    if status.is_terminal or status is Status.CANCELLING or status is Status.DELETION_PENDING
)
"""The storage of a job in one of these may be deleted: nothing needs it any more."""
_ALIKE = 2
"""Seconds by which two clocks may drift apart before a date that was shown becomes another one."""


def window_seconds(
    status: Status, *, pause_ttl_seconds: int | None, failed_ttl_seconds: int | None, limits: StorageLimits
) -> int | None:
    """How long storage is kept in a status; None where no window runs, 0 where it goes at once."""
    if status is Status.PAUSED:
        wanted = limits.paused_storage_ttl_seconds if pause_ttl_seconds is None else pause_ttl_seconds
        return min(wanted, limits.maximum_pause_ttl_seconds)
    if status is Status.ERROR:
        return limits.failed_storage_ttl_seconds if failed_ttl_seconds is None else failed_ttl_seconds
    return 0 if status is Status.CANCELLED else None


def storage_expires_at(
    status: Status,
    *,
    stopped_at: int | None,
    reclaimed_at: int | None,
    pause_ttl_seconds: int | None,
    failed_ttl_seconds: int | None,
    limits: StorageLimits,
) -> int | None:
    """When the storage is deleted; None while no window runs, or when it is deleted already."""
    window = window_seconds(
        status, pause_ttl_seconds=pause_ttl_seconds, failed_ttl_seconds=failed_ttl_seconds, limits=limits
    )
    if window is None or stopped_at is None or reclaimed_at is not None:
        return None
    return stopped_at + window * SECOND


def shown_expiry(
    expires_at: int | None, *, stopped_at: int | None, stopped_mark: str | None, clock: Clock
) -> int | None:
    """The end of a window by the clock as it is set now: a date that was changed meanwhile moves it."""
    left = seconds_left(expires_at, stopped_at=stopped_at, stopped_mark=stopped_mark, clock=clock)
    if expires_at is None or left is None:
        return expires_at
    real = clock.now() + round(left * SECOND)
    return expires_at if abs(real - expires_at) < _ALIKE * SECOND else real


def seconds_left(
    expires_at: int | None, *, stopped_at: int | None, stopped_mark: str | None, clock: Clock
) -> float | None:
    """Seconds until a window ends, 0 or less when it has ended; None where no window runs."""
    if expires_at is None or stopped_at is None:
        return None
    window = (expires_at - stopped_at) / SECOND
    return round(window - clocks.age(clock, stopped_at, stopped_mark), 6)


def expired(
    expires_at: int | None, *, stopped_at: int | None, stopped_mark: str | None, clock: Clock
) -> bool:
    """Whether the window has ended; at the very moment of its end it has."""
    left = seconds_left(expires_at, stopped_at=stopped_at, stopped_mark=stopped_mark, clock=clock)
    return left is not None and left <= 0


def check_control(
    *, pause_ttl_seconds: int | None, failed_ttl_seconds: int | None, limits: StorageLimits
) -> None:
    """Refuse windows beyond the platform's maximum with `InvalidError`."""
    maximum = limits.maximum_pause_ttl_seconds
    given = {"pause_ttl_seconds": pause_ttl_seconds, "failed_ttl_seconds": failed_ttl_seconds}
    for name, value in given.items():
        if value is not None and value > maximum:
            raise InvalidError(
                f"{name} is {value}, and the platform keeps storage for {maximum} seconds at most"
                f" ({duration_in_words(maximum)}); choose {maximum} or less"
            )
