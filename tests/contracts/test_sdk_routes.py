"""Every call of the SDK is a route of the service, with queries and a body that this route takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI

from nemo_helix_plugin.client import groups
from nemo_helix_plugin.client.methods import Method
from nemo_helix_plugin.jobs import requests
from nemo_helix_server.api.application import ROUTERS

pytestmark = pytest.mark.services

PLATFORM_SPEC = {"steps": [{"name": "work", "executor": {"provider": "subprocess", "command": ["x"]}}]}
BODIES: dict[str, Any] = {
    "create_job": {"source": "s", "spec": {}, "platform_spec": PLATFORM_SPEC},
    "create": {"source": "s", "spec": {}, "platform_spec": PLATFORM_SPEC},
    "update_job": {"description": "d"},
    "update_job_control": {"pause_ttl_seconds": 1},
    "update_job_status_details": {"a": 1},
    "update_job_step_status": {"status": "active"},
    "update_job_step_task": {"status": "active"},
    "create_job_result": {"artifact_url": "a"},
    "create_workspace": {"name": "ab"},
    "create_secret": {"name": "ab", "value": "v"},
    "update_secret": {"value": "v"},
    "create_token": {"role": "read"},
}
QUERIES: dict[str, Any] = {
    "list_jobs": requests.ListJobsQueryParams(page=1, page_size=1, sort=requests.JobSort.SOURCE, filter="a"),
    "list_job_attempts": requests.ListAttemptsQueryParams(
        page=1, page_size=1, sort=requests.AttemptSort.SEQ, filter={"status": "error"}
    ),
    "list_steps": requests.ListStepsQueryParams(
        page=1, page_size=1, filter={"status": ["error"], "source": "s"}
    ),
    "list_job_results": requests.ListResultsQueryParams(sort="created_at", attempt_id="current"),
    "list_job_logs": requests.JobLogsQueryParams(
        limit=1, page_cursor="c", tail=1, attempt_id="a", step_id="s", task_id="t"
    ),
    "list_transitions": requests.ListTransitionsQueryParams(since=1, limit=1),
}
VALUES: dict[str, Any] = {
    "page": 1,
    "page_size": 1,
    "tail": 1,
    "logs": True,
    "maintenance": True,
    "sort": "source",
}


def builders() -> list[Callable[..., Any]]:
    kinds = [vars(groups)[name] for name in dir(groups) if inspect.isclass(vars(groups)[name])]
    found = {
        method._build
        for kind in kinds
        for parent in kind.__mro__
        for method in vars(parent).values()
        if isinstance(method, Method)
    }
    return sorted(found, key=lambda build: build.__name__)


def arguments(build: Callable[..., Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(build).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            given["body"] = BODIES[build.__name__]
        elif name == "query_params":
            given[name] = QUERIES[build.__name__]
        elif name == "body":
            given[name] = BODIES[build.__name__]
        else:
            given[name] = VALUES.get(name, "ab")
    if {"job", "name"} <= given.keys() and build.__name__ in {"rerun_job", "list_job_results"}:
        del given["name"]
    return given


def normal(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


@pytest.fixture(scope="module")
def operations() -> dict[tuple[str, str], dict[str, Any]]:
    app = FastAPI()
    for module in ROUTERS:
        app.include_router(module.router)
    return {
        (method.upper(), normal(path)): operation
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
    }


@pytest.mark.parametrize("build", builders(), ids=lambda build: build.__name__)
def test_a_call_fits_its_route(
    build: Callable[..., Any], operations: dict[tuple[str, str], dict[str, Any]]
) -> None:
    request = build(**arguments(build)).request
    operation = operations.get((request.method, normal(request.path)))
    assert operation is not None, (request.method, request.path)
    taken = {entry["name"] for entry in operation.get("parameters", ()) if entry["in"] == "query"}
    sent = {name for name, value in request.query.items() if value is not None}
    assert sent <= taken
    assert (request.body is not None) == ("requestBody" in operation)


def test_all_methods_are_looked_at() -> None:
    assert len(builders()) > 45
