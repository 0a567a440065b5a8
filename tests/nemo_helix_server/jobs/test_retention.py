from __future__ import annotations

import pytest

from nemo_helix_plugin.jobs.types import HelixJobStatus as S
from nemo_helix_server.clock import SECOND
from nemo_helix_server.errors import InvalidError
from nemo_helix_server.jobs import retention
from nemo_helix_server.jobs.ports import Limits

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
        limits=Limits(),
    )
    assert expires == (None if seconds is None else 1000 + seconds * SECOND)


def test_at_the_very_end_a_window_has_ended() -> None:
    assert [retention.expired(10, now) for now in (9, 10, 11)] == [False, True, True]
    assert not retention.expired(None, 11)


def test_what_is_deleted_has_no_window() -> None:
    assert (
        retention.storage_expires_at(
            S.ERROR,
            stopped_at=1,
            reclaimed_at=2,
            pause_ttl_seconds=None,
            failed_ttl_seconds=None,
            limits=Limits(),
        )
        is None
    )


def test_a_window_beyond_the_maximum_is_refused() -> None:
    retention.check_control(pause_ttl_seconds=30 * DAY, failed_ttl_seconds=None, limits=Limits())
    with pytest.raises(InvalidError, match="choose 2592000 or less"):
        retention.check_control(pause_ttl_seconds=None, failed_ttl_seconds=30 * DAY + 1, limits=Limits())
