"""The last step: the trained model by name, through the service."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from nemo_helix_server.customizer.steps.reporting import Report, StepError, main

PATIENCE = 600.0
"""Seconds in which a service that is away, as for an upgrade, may come back."""


def register(config: dict[str, Any], report: Report) -> None:
    """Make the model known; the same once more is fine."""
    report.say(now=True, phase="registering", model=config["model"]["name"])
    url = f"{report.context.jobs_url}/apis/models/v2/workspaces/{config['workspace']}/models"
    body = {name: value for name, value in config["model"].items() if value is not None}
    until = time.monotonic() + PATIENCE
    while True:
        try:
            _post(url, body, report.context.access_token)
            break
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                raise StepError(f"the service refused the model: {_detail(error)}") from error
            if time.monotonic() > until:
                raise StepError(
                    f"the service at {report.context.jobs_url} cannot be reached: {error}"
                ) from error
            time.sleep(1.0)
    path = report.context.trainer_path / "registered.json"
    path.write_text(json.dumps(body) + "\n", encoding="utf-8")
    report.outputs([path])


def _post(url: str, body: dict[str, Any], token: str | None) -> None:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")  # noqa: S310 - the service's own address
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}) if _own(url) else urllib.request.ProxyHandler()
    )
    with direct.open(request, timeout=60) as answer:
        answer.read()


def _own(url: str) -> bool:
    return url.startswith(("http://127.", "http://localhost", "http://[::1]"))


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error)


if __name__ == "__main__":
    main(register)
