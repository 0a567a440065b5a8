"""Calls about fine-tuning: jobs by backend, and saved specs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from nemo_helix_plugin.client import responses
from nemo_helix_plugin.client.calls.call import Call, nothing, paged, single
from nemo_helix_plugin.client.calls.jobs import JobCall, JobListCall, NothingCall
from nemo_helix_plugin.client.request import Request, checked, parameters
from nemo_helix_plugin.client.session import AsyncSession, ClientSession
from nemo_helix_plugin.customization import requests
from nemo_helix_plugin.jobs import types

ROOT = "/apis/customization/v2"
JOBS = ROOT + "/workspaces/{workspace}/{backend}/jobs"
TEMPLATES = ROOT + "/workspaces/{workspace}/job-templates"

Fields = Mapping[str, Any]
TemplateCall = Call[
    responses.NemoResponse[requests.JobTemplate], responses.NemoResponse[requests.JobTemplate]
]


class CustomizationJob(responses.NemoResponse[types.HelixJobResponse]):
    """The answer to a submission; from here on the job is one of `client.jobs`."""

    @property
    def job(self) -> types.HelixJobResponse:
        """The job."""
        return self.data()

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name


HandleCall = Call[CustomizationJob, CustomizationJob]


def create_job(
    backend: str,
    *,
    spec: Any,
    workspace: str | None = None,
    name: str | None = None,
    profile: str | None = None,
    options: requests.CustomizationOptions | Fields | None = None,
    description: str | None = None,
    project: str | None = None,
    ownership: Fields | None = None,
    custom_fields: Fields | None = None,
    output_location: str | None = None,
    idempotency_key: str | None = None,
) -> HandleCall:
    """Submit a job; ``spec`` is the backend's input spec, as its type or as a mapping."""
    given: dict[str, Any] = {
        "name": name,
        "description": description,
        "project": project,
        "profile": profile,
        "options": options,
        "ownership": ownership,
        "custom_fields": custom_fields,
        "output_location": output_location,
    }
    fields = {"spec": _plain(spec), **{key: value for key, value in given.items() if value is not None}}
    request = Request(
        "POST",
        JOBS,
        {"workspace": workspace, "backend": backend},
        body=checked(requests.CreateCustomizationJobRequest, fields),
        headers={"Idempotency-Key": idempotency_key or uuid.uuid4().hex},
    )
    return _handle(request)


def _plain(spec: Any) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude_unset=True) if hasattr(spec, "model_dump") else dict(spec)


def list_jobs(
    backend: str,
    *,
    workspace: str | None = None,
    query_params: types.ListJobsQueryParams | Fields | None = None,
) -> JobListCall:
    """List a backend's jobs."""
    query = parameters(types.ListJobsQueryParams, query_params)
    return paged(
        Request("GET", JOBS, {"workspace": workspace, "backend": backend}, query), types.HelixJobResponse
    )


def get_job(backend: str, *, name: str, workspace: str | None = None) -> JobCall:
    """Get a job of a backend."""
    return single(_on_job("GET", "", backend, name, workspace), types.HelixJobResponse)


def get_status(
    backend: str, *, name: str, workspace: str | None = None
) -> Call[
    responses.NemoResponse[types.HelixJobStatusResponse], responses.NemoResponse[types.HelixJobStatusResponse]
]:
    """Get the status of a job, its steps and their tasks."""
    return single(_on_job("GET", "/status", backend, name, workspace), types.HelixJobStatusResponse)


def cancel_job(backend: str, *, name: str, workspace: str | None = None) -> JobCall:
    """Cancel a job for good; nothing is uploaded of it."""
    return single(_on_job("POST", "/cancel", backend, name, workspace), types.HelixJobResponse)


def delete_job(backend: str, *, name: str, workspace: str | None = None) -> NothingCall:
    """Delete a job that has ended; the model it made stays."""
    return nothing(_on_job("DELETE", "", backend, name, workspace))


def explain(
    backend: str, *, workspace: str | None = None
) -> Call[responses.NemoResponse[requests.Explanation], responses.NemoResponse[requests.Explanation]]:
    """Get what a backend takes and stores, what it refuses here, and its engine's state."""
    path = ROOT + "/workspaces/{workspace}/{backend}/explain"
    return single(Request("GET", path, {"workspace": workspace, "backend": backend}), requests.Explanation)


def preview(
    backend: str, *, spec: Any, rows: int = 3, workspace: str | None = None
) -> Call[responses.NemoResponse[requests.Preview], responses.NemoResponse[requests.Preview]]:
    """Get what a job of a spec would learn of its first rows, and what would be cut; makes no job."""
    path = ROOT + "/workspaces/{workspace}/{backend}/preview"
    body = checked(requests.PreviewRequest, {"spec": _plain(spec), "rows": rows})
    request = Request("POST", path, {"workspace": workspace, "backend": backend}, body=body)
    return single(request, requests.Preview)


def dry_run(
    backend: str,
    *,
    spec: Any,
    workspace: str | None = None,
    profile: str | None = None,
    options: requests.CustomizationOptions | Fields | None = None,
) -> Call[responses.NemoResponse[requests.DryRun], responses.NemoResponse[requests.DryRun]]:
    """Check a job whole and get what it would take, memory and time included; makes no job."""
    given = {"spec": _plain(spec), "profile": profile, "options": options}
    fields = {key: value for key, value in given.items() if value is not None}
    body = checked(requests.CreateCustomizationJobRequest, fields)
    path = ROOT + "/workspaces/{workspace}/{backend}/dry-run"
    request = Request("POST", path, {"workspace": workspace, "backend": backend}, body=body)
    return single(request, requests.DryRun)


def health() -> Call[
    responses.NemoResponse[requests.CustomizationHealth], responses.NemoResponse[requests.CustomizationHealth]
]:
    """Get whether there is anything to train with."""
    return single(Request("GET", ROOT + "/healthz"), requests.CustomizationHealth)


def create_template(
    *, body: requests.CreateJobTemplateRequest | Fields, workspace: str | None = None
) -> TemplateCall:
    """Save a spec under a name."""
    template = checked(requests.CreateJobTemplateRequest, body)
    return single(Request("POST", TEMPLATES, {"workspace": workspace}, body=template), requests.JobTemplate)


def list_templates(
    *, workspace: str | None = None, page: int | None = None, page_size: int | None = None
) -> Call[responses.PagedResponse[requests.JobTemplate], responses.AsyncPagedResponse[requests.JobTemplate]]:
    """List the saved specs of a workspace."""
    query = {"page": page, "page_size": page_size}
    return paged(Request("GET", TEMPLATES, {"workspace": workspace}, query), requests.JobTemplate)


def get_template(*, name: str, workspace: str | None = None) -> TemplateCall:
    """Get a saved spec."""
    return single(Request("GET", *_template(name, workspace)), requests.JobTemplate)


def update_template(
    *, name: str, body: requests.UpdateJobTemplateRequest | Fields, workspace: str | None = None
) -> TemplateCall:
    """Change a saved spec."""
    changes = checked(requests.UpdateJobTemplateRequest, body)
    return single(Request("PATCH", *_template(name, workspace), body=changes), requests.JobTemplate)


def delete_template(*, name: str, workspace: str | None = None) -> NothingCall:
    """Forget a saved spec."""
    return nothing(Request("DELETE", *_template(name, workspace)))


def _template(name: str, workspace: str | None) -> tuple[str, dict[str, str | None]]:
    return TEMPLATES + "/{name}", {"name": name, "workspace": workspace}


def _on_job(method: str, suffix: str, backend: str, name: str, workspace: str | None) -> Request:
    parts = {"name": name, "workspace": workspace, "backend": backend}
    return Request(method, JOBS + "/{name}" + suffix, parts)


def _handle(request: Request) -> HandleCall:
    whole = single(request, types.HelixJobResponse)

    def sync(session: ClientSession, request: Request) -> CustomizationJob:
        found = whole.sync(session, request)
        return CustomizationJob(found.http_response, found.data())

    async def asynchronous(session: AsyncSession, request: Request) -> CustomizationJob:
        found = await whole.asynchronous(session, request)
        return CustomizationJob(found.http_response, found.data())

    return Call(request, sync, asynchronous)
