"""A time span is as long as it was, whatever somebody does to the date meanwhile."""

import time

import pytest

from nemo_runs import boot_clock


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_date_that_is_set_changes_no_span(monkeypatch, jump):
    date = time.time
    span = boot_clock.Span()
    before = span.now()
    monkeypatch.setattr(time, "time", lambda: date() + jump)
    assert span.began <= before <= span.now() < span.began + 60


def test_time_since_boot_only_grows_and_is_the_machine_s():
    first = boot_clock.uptime()
    assert boot_clock.uptime() >= first
    with open("/proc/uptime", encoding="ascii") as file:
        assert abs(float(file.read().split()[0]) - first) < 60
