import pytest

from nemo_gym.rollouts.policy.backoff import RequestLimits, delay_before_retry
from nemo_gym.rollouts.policy.errors import PolicyError, of_status, parse_retry_after

LIMITS = RequestLimits(attempts=4, first_delay=1.0, longest_delay=3.0, longest_retry_after=20.0)


def highest(_low, high):
    return high


def delay(error, attempt=1, timeouts=0, uniform=highest):
    return delay_before_retry(error, attempt=attempt, timeouts=timeouts, limits=LIMITS, uniform=uniform)


def test_the_bound_doubles_up_to_the_longest_delay_and_the_tries_end():
    error = PolicyError("provider_unavailable", "503")
    assert [delay(error, attempt=n) for n in (1, 2, 3, 4)] == [1.0, 2.0, 3.0, None]


def test_the_jitter_is_full():
    assert delay(PolicyError("transport_peer_drop", "x"), uniform=lambda low, _high: low) == 0.0


def test_retry_after_is_honoured_within_its_bound_and_spread():
    assert delay(PolicyError("provider_quota_exhausted", "429", retry_after=7)) == 8.0
    assert (
        delay(PolicyError("provider_quota_exhausted", "429", retry_after=7), uniform=lambda low, _: low)
        == 7.0
    )
    assert delay(PolicyError("provider_quota_exhausted", "429", retry_after=3600)) == 21.0


def test_a_second_timeout_is_the_last():
    error = PolicyError("transport_timeout", "slow")
    assert delay(error, timeouts=1) is not None
    assert delay(error, attempt=2, timeouts=2) is None


@pytest.mark.parametrize(
    ("status", "again"), [(400, False), (404, False), (408, True), (500, True), (503, True)]
)
def test_only_what_may_pass_is_tried_again(status, again):
    assert (delay(of_status("u", status, "", None, now=0)) is not None) is again


def test_a_spent_quota_is_not_waited_for():
    error = of_status("u", 429, '{"error": {"code": "insufficient_quota"}}', None, now=0)
    assert error.kind == "provider_quota_exhausted"
    assert delay(error) is None


def test_retry_after_is_seconds_or_a_date():
    assert parse_retry_after("1.5", now=0) == 1.5
    assert parse_retry_after("-3", now=0) == 0.0
    assert parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", now=20) == 40.0
    assert parse_retry_after("Sat, 01 Jan 99999999999 00:00:00 GMT", now=20) is None
    assert parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", now=200) == 0.0
    assert parse_retry_after("soon", now=0) is None
    assert parse_retry_after(None, now=0) is None


@pytest.mark.parametrize("limits", [{"attempts": 0}, {"timeout": 0}])
def test_limits_must_allow_one_try(limits):
    with pytest.raises(ValueError, match="at least one attempt"):
        RequestLimits(**limits)


@pytest.mark.parametrize(
    ("status", "failure_class", "of_endpoint"),
    [
        (400, "agent_run_error", False),
        (401, "agent_run_error", True),
        (404, "agent_run_error", True),
        (429, "agent_request_failed", True),
        (500, "agent_run_error", True),
        (503, "agent_request_failed", True),
    ],
)
def test_each_status_has_its_class_and_its_culprit(status, failure_class, of_endpoint):
    error = of_status("u", status, "text", None, now=0)
    assert (error.failure_class, error.of_endpoint) == (failure_class, of_endpoint)
