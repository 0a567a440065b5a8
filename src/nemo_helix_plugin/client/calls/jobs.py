"""Calls about jobs as a whole: create, list, act on, follow."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from nemo_helix_plugin.client import responses, streams
from nemo_helix_plugin.client.calls.call import Call, events, nothing, paged, single
from nemo_helix_plugin.client.request import Request, checked, parameters
from nemo_helix_plugin.jobs import types

ROOT = "/apis/jobs/v2"
JOBS = ROOT + "/workspaces/{workspace}/jobs"
JOB = JOBS + "/{name}"

Fields = Mapping[str, Any]
JobCall = Call[responses.NemoResponse[types.HelixJobResponse], responses.NemoResponse[types.HelixJobResponse]]
JobListCall = Call[
    responses.PagedResponse[types.HelixJobResponse], responses.AsyncPagedResponse[types.HelixJobResponse]
]
NothingCall = Call[responses.NemoResponse[None], responses.NemoResponse[None]]


def create_job(
    *,
    body: types.CreateHelixJobRequest | Fields,
    workspace: str | None = None,
    idempotency_key: str | None = None,
) -> JobCall:
    """Create a job. Repeating the call with the same ``idempotency_key`` gives the same job."""
    request = Request(
        "POST",
        JOBS,
        {"workspace": workspace},
        body=checked(types.CreateHelixJobRequest, body),
        headers={"Idempotency-Key": idempotency_key or uuid.uuid4().hex},
    )
    return single(request, types.HelixJobResponse)


def create(*, workspace: str | None = None, idempotency_key: str | None = None, **fields: Any) -> JobCall:
    """Create a job out of the fields of `CreateHelixJobRequest`, or of one as ``body``."""
    body = fields.pop("body", None)
    if body is not None and fields:
        raise TypeError(f"create() takes body or fields, not both: {', '.join(sorted(fields))}")
    return create_job(
        body=fields if body is None else body, workspace=workspace, idempotency_key=idempotency_key
    )


def list_jobs(
    *, query_params: types.ListJobsQueryParams | Fields | None = None, workspace: str | None = None
) -> JobListCall:
    """List a workspace's jobs, or those of all workspaces with ``workspace="-"``."""
    query = parameters(types.ListJobsQueryParams, query_params)
    return paged(Request("GET", JOBS, {"workspace": workspace}, query), types.HelixJobResponse)


def list_by_fields(
    *,
    workspace: str | None = None,
    page: int | None = None,
    page_size: int | None = None,
    sort: types.JobSort | None = None,
    filter: types.Filter | None = None,  # noqa: A002 - the query parameter's name
) -> JobListCall:
    """List jobs, with the query parameters as arguments."""
    query = types.ListJobsQueryParams(page=page, page_size=page_size, sort=sort, filter=filter)
    return list_jobs(query_params=query, workspace=workspace)


def get_job(*, name: str, workspace: str | None = None) -> JobCall:
    """Get a job by its name or id."""
    return _on_job("GET", "", name, workspace)


def update_job(
    *, name: str, body: types.UpdateHelixJobRequest | Fields, workspace: str | None = None
) -> JobCall:
    """Change a job's description or tags, or its definition before it has an attempt."""
    return _on_job("PATCH", "", name, workspace, checked(types.UpdateHelixJobRequest, body))


def delete_job(*, name: str, workspace: str | None = None) -> NothingCall:
    """Delete a job that has ended, with its storage; the answer only acknowledges it."""
    return nothing(Request("DELETE", JOB, {"name": name, "workspace": workspace}))


def cancel_job(*, name: str, workspace: str | None = None) -> JobCall:
    """Cancel a job for good."""
    return _on_job("POST", "/cancel", name, workspace)


def pause_job(*, name: str, workspace: str | None = None) -> JobCall:
    """Have the job save a checkpoint and stop, which frees its GPUs."""
    return _on_job("POST", "/pause", name, workspace)


def resume_job(*, name: str, workspace: str | None = None) -> JobCall:
    """Continue a paused job from the checkpoint that the pause saved."""
    return _on_job("POST", "/resume", name, workspace)


def rerun_job(
    *,
    job: str | None = None,
    name: str | None = None,
    workspace: str | None = None,
    checkpoint: str | None = None,
) -> JobCall:
    """Start a new attempt of a job that ended in error, from its newest checkpoint or the given one.

    The job is given as ``job``, or as ``name`` like everywhere else.
    """
    if (job is None) == (name is None):
        raise TypeError("rerun_job() takes the job's name once: rerun_job(job=…)")
    request = Request(
        "POST",
        JOBS + "/{job}/rerun",
        {"job": name or job, "workspace": workspace},
        {"checkpoint": checkpoint},
    )
    return single(request, types.HelixJobResponse)


def update_job_control(
    *, name: str, body: types.JobControl | Fields, workspace: str | None = None
) -> JobCall:
    """Set how long a job's storage is kept."""
    return _on_job("PATCH", "/control", name, workspace, checked(types.JobControl, body))


def pause_all(
    *, workspace: str | None = None, source: str | None = None, maintenance: bool = False
) -> Call[responses.NemoResponse[types.PauseAllResponse], responses.NemoResponse[types.PauseAllResponse]]:
    """Pause every job of a workspace that can be paused, and say which cannot.

    ``maintenance``: the service is about to stop, which is recorded as the reason.
    """
    path = ROOT + "/workspaces/{workspace}/pause-all"
    query = {"source": source, "maintenance": True if maintenance else None}
    return single(Request("POST", path, {"workspace": workspace}, query), types.PauseAllResponse)


def get_job_status(
    *, name: str, workspace: str | None = None
) -> Call[
    responses.NemoResponse[types.HelixJobStatusResponse], responses.NemoResponse[types.HelixJobStatusResponse]
]:
    """Get the status of a job, its steps and their tasks."""
    request = Request("GET", JOB + "/status", {"name": name, "workspace": workspace})
    return single(request, types.HelixJobStatusResponse)


def get_job_bill(
    *, name: str, workspace: str | None = None
) -> Call[responses.NemoResponse[types.JobBill], responses.NemoResponse[types.JobBill]]:
    """Get what each allocation of a job used, waited for, and lost."""
    return single(Request("GET", JOB + "/bill", {"name": name, "workspace": workspace}), types.JobBill)


def update_job_status_details(*, name: str, body: Fields, workspace: str | None = None) -> JobCall:
    """Merge details into those of the current attempt."""
    return _on_job("PATCH", "/status-details", name, workspace, dict(body))


def list_transitions(
    *,
    name: str,
    query_params: types.ListTransitionsQueryParams | Fields | None = None,
    workspace: str | None = None,
) -> Call[responses.PagedResponse[types.Transition], responses.AsyncPagedResponse[types.Transition]]:
    """List every change of status of a job and its parts: who, when and why."""
    query = {"limit": 10_000, **parameters(types.ListTransitionsQueryParams, query_params)}
    return paged(
        Request("GET", JOB + "/transitions", {"name": name, "workspace": workspace}, query), types.Transition
    )


def stream_events(
    *,
    name: str | None = None,
    workspace: str | None = None,
    logs: bool = False,
    tail: int | None = None,
    page_cursor: str | None = None,
    since: str | int | None = None,
) -> Call[streams.EventStream, streams.AsyncEventStream]:
    """Follow a job, or a whole workspace, as things happen; ``since`` goes on after an event's id.

    With ``logs`` a job's lines come too: all of them, or the last ``tail`` and those after ``page_cursor``.
    """
    path = ROOT + "/workspaces/{workspace}/events" if name is None else JOB + "/events"
    headers = {"Accept": "text/event-stream"}
    if since is not None:
        headers["Last-Event-ID"] = str(since)
    parts = {"workspace": workspace} | ({} if name is None else {"name": name})
    query = {"logs": True, "tail": tail, "page_cursor": page_cursor} if logs else {}
    return events(Request("GET", path, parts, query, headers=headers))


def get_execution_profiles() -> Call[
    responses.PagedResponse[types.ExecutionProfile], responses.AsyncPagedResponse[types.ExecutionProfile]
]:
    """List where steps can run."""
    return paged(Request("GET", ROOT + "/execution-profiles"), types.ExecutionProfile)


def check_execution_profile(
    *, provider: str, profile: str
) -> Call[responses.NemoResponse[types.ProfileCheck], responses.NemoResponse[types.ProfileCheck]]:
    """Find out, without a job, what would keep steps of an execution profile from running."""
    path = ROOT + "/execution-profiles/{provider}/{profile}/check"
    return single(Request("POST", path, {"provider": provider, "profile": profile}), types.ProfileCheck)


def _on_job(method: str, suffix: str, name: str, workspace: str | None, body: Any = None) -> JobCall:
    request = Request(method, JOB + suffix, {"name": name, "workspace": workspace}, body=body)
    return single(request, types.HelixJobResponse)
