"""How long the storage of a job that rests is kept. A window starts when the job came to rest and is measured
from there, whatever is changed later; the platform's maximum holds for windows that were set before it, too.
"""

from __future__ import annotations

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.clock import SECOND
from nemo_helix_server.errors import InvalidError
from nemo_helix_server.jobs.ports import Limits


def window_seconds(
    status: Status, *, pause_ttl_seconds: int | None, failed_ttl_seconds: int | None, limits: Limits
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
    limits: Limits,
) -> int | None:
    """When the storage is deleted; None while no window runs, or when it is deleted already."""
    window = window_seconds(
        status, pause_ttl_seconds=pause_ttl_seconds, failed_ttl_seconds=failed_ttl_seconds, limits=limits
    )
    if window is None or stopped_at is None or reclaimed_at is not None:
        return None
    return stopped_at + window * SECOND


def expired(expires_at: int | None, now: int) -> bool:
    """Whether the window has ended; at the very moment of its end it has."""
    return expires_at is not None and now >= expires_at


def check_control(*, pause_ttl_seconds: int | None, failed_ttl_seconds: int | None, limits: Limits) -> None:
    """Refuse windows beyond the platform's maximum with `InvalidError`."""
    maximum = limits.maximum_pause_ttl_seconds
    given = {"pause_ttl_seconds": pause_ttl_seconds, "failed_ttl_seconds": failed_ttl_seconds}
    for name, value in given.items():
        if value is not None and value > maximum:
            raise InvalidError(
                f"{name} is {value}, and the platform keeps storage for {maximum} seconds at most"
                f" ({maximum / 86400:g} days); choose {maximum} or less"
            )
