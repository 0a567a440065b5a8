from __future__ import annotations

from collections.abc import Callable

import pytest

from nemo_helix_plugin.jobs.types import HelixJobStatus as S
from nemo_helix_server.errors import InvalidError
from nemo_helix_server.jobs import retention
from nemo_helix_server.settings import StorageSettings
from nemo_runs.clock import SECOND, MovableClock, mark

DAY = 24 * 3600


@pytest.mark.parametrize(
    ("status", "pause", "failed", "seconds"),
    [
        (S.PAUSED, None, None, 7 * DAY),
        (S.PAUSED, 14 * DAY, None, 14 * DAY),
        (S.PAUSED, 99 * DAY, None, 30 * DAY),
        (S.PAUSED, 0, None, 0),
        (S.ERROR, None, None, 4 * 3600),
        (S.ERROR, 5, 60, 60),
        (S.CANCELLED, None, None, 0),
        (S.COMPLETED, None, None, None),
        (S.ACTIVE, None, None, None),
        (S.RESUMING, None, None, None),
    ],
)
def test_each_status_has_its_window(
    status: S, pause: int | None, failed: int | None, seconds: int | None
) -> None:
    expires = retention.storage_expires_at(
        status,
        stopped_at=1000,
        reclaimed_at=None,
        pause_ttl_seconds=pause,
        failed_ttl_seconds=failed,
        limits=StorageSettings(),
    )
    assert expires == (None if seconds is None else 1000 + seconds * SECOND)


def rested(clock: MovableClock) -> Callable[[int | None], bool]:
    """Whether a window is over, of a job that comes to rest now."""
    at, marked = clock.now(), mark(clock)

    def over(seconds: int | None) -> bool:
        ends = None if seconds is None else at + seconds * SECOND
        return retention.expired(ends, stopped_at=at, stopped_mark=marked, clock=clock)

    return over


def test_at_the_very_end_a_window_has_ended() -> None:
    clock = MovableClock()
    over = rested(clock)
    clock.advance(9.999999)
    assert not over(10)
    clock.advance(0.000001)
    assert over(10)
    assert not over(None)


@pytest.mark.parametrize("jump", [-3600 * 24 * 365, -60, 60, 3600 * 24 * 365])
def test_whoever_sets_the_date_neither_ends_nor_prolongs_a_window(jump: float) -> None:
    clock = MovableClock()
    over = rested(clock)
    clock.step(jump)
    assert not over(100)
    clock.advance(99)
    assert not over(100)
    clock.advance(1)
    assert over(100)


def test_over_a_restart_of_the_machine_the_date_counts() -> None:
    clock = MovableClock()
    over = rested(clock)
    clock.advance(50)
    clock.reboot(30)
    assert not over(100)
    clock.advance(20)
    assert over(100)


@pytest.mark.parametrize(("jump", "moved"), [(86_400, 86_400), (-3600, -3600), (1, 0), (0, 0)])
def test_the_end_that_is_shown_is_that_of_the_clock_as_it_is_set(jump: int, moved: int) -> None:
    clock = MovableClock()
    at, marked = clock.now(), mark(clock)
    clock.advance(10)
    clock.step(jump)
    ends = retention.shown_expiry(at + 100 * SECOND, stopped_at=at, stopped_mark=marked, clock=clock)
    assert ends == at + (100 + moved) * SECOND
    clock.advance(90)
    over = retention.expired(at + 100 * SECOND, stopped_at=at, stopped_mark=marked, clock=clock)
    assert over
    assert ends is not None
    assert abs(clock.now() - ends) < 2 * SECOND
    assert retention.shown_expiry(None, stopped_at=None, stopped_mark=None, clock=clock) is None


def test_what_is_deleted_has_no_window() -> None:
    assert (
        retention.storage_expires_at(
            S.ERROR,
            stopped_at=1,
            reclaimed_at=2,
            pause_ttl_seconds=None,
            failed_ttl_seconds=None,
            limits=StorageSettings(),
        )
        is None
    )


def test_a_window_beyond_the_maximum_is_refused() -> None:
    retention.check_control(pause_ttl_seconds=30 * DAY, failed_ttl_seconds=None, limits=StorageSettings())
    with pytest.raises(InvalidError, match="choose 2592000 or less"):
        retention.check_control(
            pause_ttl_seconds=None, failed_ttl_seconds=30 * DAY + 1, limits=StorageSettings()
        )
