"""Calls of the service from a step, made again while it is away, as for an upgrade."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from nemo_helix_server.customizer.steps.reporting import StepError, TransferReport

SERVICE_TIMEOUT = 600.0
"""Seconds in which the service may come back."""


class ServiceRefusedError(StepError):
    """The service has answered that it will not; ``code`` is its HTTP status."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def ask(report: TransferReport, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send a body, or get what is there; `ServiceRefusedError` for a refusal, `StepError` when nobody
    answers.
    """
    until = time.monotonic() + SERVICE_TIMEOUT
    while True:
        try:
            return _asked(f"{report.context.jobs_url}{path}", body, report.context.access_token)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                raise ServiceRefusedError(error.code, _detail(error)) from error
            if time.monotonic() > until:
                raise StepError(
                    f"the service at {report.context.jobs_url} cannot be reached: {error}"
                ) from error
            time.sleep(1.0)


def _asked(url: str, body: dict[str, Any] | None, token: str | None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data, method = (None, "GET") if body is None else (json.dumps(body).encode(), "POST")
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - the service's own address
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}) if _own(url) else urllib.request.ProxyHandler()
    )
    with direct.open(request, timeout=60) as answer:
        found = json.loads(answer.read() or b"{}")
        return found if isinstance(found, dict) else {}


def _own(url: str) -> bool:
    return url.startswith(("http://127.", "http://localhost", "http://[::1]"))


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error)
