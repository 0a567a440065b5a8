"""When a call is made again: the policy alone, and through a client whose sleeping is recorded."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from tests.nemo_helix_plugin.client.scripted import Answer, Scripted, job

from nemo_helix_plugin.client import errors
from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.client.options import ClientRuntime
from nemo_helix_plugin.client.retries import RetryPolicy

NAME = "automodel-a1b2c3d4e5f6"
JOB = f"/apis/jobs/v2/workspaces/default/jobs/{NAME}"
REFUSED = {"detail": "no"}


def attempts(service: Scripted, policy: RetryPolicy, method: str = "get_job") -> tuple[int, list[float]]:
    """How many requests were made, and what was slept between them."""
    slept: list[float] = []
    runtime = ClientRuntime(sleep=slept.append)
    with (
        NemoClient(
            base_url=service.base_url, workspace="default", retry=policy, client_runtime=runtime
        ) as client,
        contextlib.suppress(errors.NemoClientError),
    ):
        getattr(client.jobs, method)(name=NAME)
    return len(service.asked), slept


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_the_default_repeats_three_times_waiting_twice_as_long(service: Scripted, status: int) -> None:
    service.on("GET", JOB, Answer(REFUSED, status))
    assert attempts(service, RetryPolicy()) == (4, [0.5, 1.0, 2.0])


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 422, 500])
def test_the_default_takes_other_answers_as_they_are(service: Scripted, status: int) -> None:
    service.on("GET", JOB, Answer(REFUSED, status))
    assert attempts(service, RetryPolicy()) == (1, [])


@pytest.mark.parametrize("status", [408, 409, 429, 500, 507, 599])
def test_the_platforms_policy_repeats_twice_after_more_kinds(service: Scripted, status: int) -> None:
    service.on("GET", JOB, Answer(REFUSED, status))
    assert attempts(service, RetryPolicy.platform()) == (3, [0.5, 1.0])


def test_a_repetition_that_succeeds_ends_them(service: Scripted) -> None:
    service.on("GET", JOB, Answer(REFUSED, 503), Answer(job()))
    assert attempts(service, RetryPolicy()) == (2, [0.5])


def test_the_service_says_whether_repeating_helps(service: Scripted) -> None:
    service.on("GET", JOB, Answer(REFUSED, 409, {"x-should-retry": "false"}))
    assert attempts(service, RetryPolicy.platform()) == (1, [])
    service.asked.clear()
    service.on("GET", JOB, Answer(REFUSED, 422, {"x-should-retry": "true"}), Answer(job()))
    assert attempts(service, RetryPolicy()) == (2, [0.5])


@pytest.mark.parametrize(("asked", "waited"), [("7", [7.0]), ("0", [0.0]), ("60", [60.0]), ("soon", [0.5])])
def test_the_service_says_how_long_to_wait(service: Scripted, asked: str, waited: list[float]) -> None:
    service.on("GET", JOB, Answer(REFUSED, 503, {"retry-after": asked}), Answer(job()))
    assert attempts(service, RetryPolicy()) == (2, waited)


@pytest.mark.parametrize("asked", ["61", "3600"])
def test_a_service_that_asks_for_more_than_a_minute_is_not_waited_for(service: Scripted, asked: str) -> None:
    service.on("GET", JOB, Answer(REFUSED, 503, {"retry-after": asked}))
    assert attempts(service, RetryPolicy()) == (1, [])


def test_a_moment_in_retry_after_is_waited_for(service: Scripted) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    service.on("GET", JOB, Answer(REFUSED, 503, {"retry-after": moment}), Answer(job()))
    count, (waited,) = attempts(service, RetryPolicy())
    assert count == 2
    assert 5 < waited <= 40


def test_what_may_have_been_done_is_not_repeated(service: Scripted) -> None:
    service.on("GET", JOB, Answer(hang_up=True), Answer(job()))
    assert attempts(service, RetryPolicy())[0] == 2
    service.asked.clear()
    service.on("POST", f"{JOB}/cancel", Answer(hang_up=True), Answer(job()))
    assert attempts(service, RetryPolicy(), "cancel_job")[0] == 1


def test_a_request_that_was_never_sent_is_repeated_whatever_it_is() -> None:
    calls: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        calls.append(request.method)
        if len(calls) < 3:
            raise httpx.ConnectError("no route", request=request)
        return httpx.Response(200, json=job())

    runtime = ClientRuntime(sleep=lambda seconds: None)
    transport = httpx.MockTransport(handler)
    with NemoClient(transport=transport, workspace="default", client_runtime=runtime) as client:
        client.jobs.pause_job(name=NAME)
    assert calls == ["POST"] * 3


def test_a_certificate_is_not_better_the_second_time() -> None:
    error = errors.CertificateError("no", sent=False)
    assert not RetryPolicy().wants(error, repeatable=True)
