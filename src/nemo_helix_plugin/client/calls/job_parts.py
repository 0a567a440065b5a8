"""Calls about the parts of a job: attempts, steps, tasks, results, logs and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_helix_plugin.client import responses, streams
from nemo_helix_plugin.client.calls.call import Call, binary, logs, paged, single
from nemo_helix_plugin.client.calls.jobs import JOBS
from nemo_helix_plugin.client.request import Request, checked, parameters
from nemo_helix_plugin.jobs import types

JOB = JOBS + "/{job}"
ATTEMPT = JOB + "/attempts/{attempt}"

Fields = Mapping[str, Any]
AttemptCall = Call[
    responses.NemoResponse[types.HelixJobAttemptResponse],
    responses.NemoResponse[types.HelixJobAttemptResponse],
]
StepCall = Call[
    responses.NemoResponse[types.HelixJobStepResponse], responses.NemoResponse[types.HelixJobStepResponse]
]
TaskCall = Call[
    responses.NemoResponse[types.HelixJobTaskResponse], responses.NemoResponse[types.HelixJobTaskResponse]
]
ResultCall = Call[
    responses.NemoResponse[types.HelixJobResultResponse], responses.NemoResponse[types.HelixJobResultResponse]
]
CheckpointCall = Call[responses.NemoResponse[types.Checkpoint], responses.NemoResponse[types.Checkpoint]]


def list_job_attempts(
    *,
    job: str,
    query_params: types.ListAttemptsQueryParams | Fields | None = None,
    workspace: str | None = None,
) -> Call[
    responses.PagedResponse[types.HelixJobAttemptResponse],
    responses.AsyncPagedResponse[types.HelixJobAttemptResponse],
]:
    """List the runs of a job, newest first."""
    query = parameters(types.ListAttemptsQueryParams, query_params)
    request = Request("GET", JOB + "/attempts", {"job": job, "workspace": workspace}, query)
    return paged(request, types.HelixJobAttemptResponse)


def get_job_attempt(*, job: str, attempt: str = "current", workspace: str | None = None) -> AttemptCall:
    """Get one run of a job by its id, or the current one."""
    request = Request("GET", ATTEMPT, {"job": job, "attempt": attempt, "workspace": workspace})
    return single(request, types.HelixJobAttemptResponse)


def list_steps(
    *,
    job: str = "-",
    query_params: types.ListStepsQueryParams | Fields | None = None,
    workspace: str | None = None,
) -> Call[
    responses.PagedResponse[types.HelixJobStepWithContext],
    responses.AsyncPagedResponse[types.HelixJobStepWithContext],
]:
    """List steps of a job's current attempt, or with ``job="-"`` of all jobs."""
    query = parameters(types.ListStepsQueryParams, query_params)
    request = Request("GET", JOB + "/steps", {"job": job, "workspace": workspace}, query)
    return paged(request, types.HelixJobStepWithContext)


def list_job_attempt_steps(
    *, job: str, attempt: str = "current", workspace: str | None = None
) -> Call[
    responses.PagedResponse[types.HelixJobStepResponse],
    responses.AsyncPagedResponse[types.HelixJobStepResponse],
]:
    """List the steps of one run of a job."""
    request = Request("GET", ATTEMPT + "/steps", {"job": job, "attempt": attempt, "workspace": workspace})
    return paged(request, types.HelixJobStepResponse)


def get_job_step(*, job: str, name: str, workspace: str | None = None) -> StepCall:
    """Get one step of the current attempt."""
    request = Request("GET", JOB + "/steps/{name}", {"job": job, "name": name, "workspace": workspace})
    return single(request, types.HelixJobStepResponse)


def update_job_step_status(
    *, job: str, name: str, body: types.HelixJobStepStatusUpdate | Fields, workspace: str | None = None
) -> StepCall:
    """Write a step's status, if the step is still the expected one."""
    parts = {"job": job, "name": name, "workspace": workspace}
    update = checked(types.HelixJobStepStatusUpdate, body)
    request = Request("PATCH", JOB + "/steps/{name}/status", parts, body=update)
    return single(request, types.HelixJobStepResponse)


def list_job_step_tasks(
    *, job: str, step: str, attempt: str | None = None, workspace: str | None = None
) -> Call[
    responses.PagedResponse[types.HelixJobTaskResponse],
    responses.AsyncPagedResponse[types.HelixJobTaskResponse],
]:
    """List the processes of a step."""
    path, parts = _tasks(job, step, attempt, workspace)
    return paged(Request("GET", path, parts), types.HelixJobTaskResponse)


def get_job_step_task(*, job: str, step: str, name: str, workspace: str | None = None) -> TaskCall:
    """Get one process of a step."""
    path, parts = _tasks(job, step, None, workspace)
    return single(Request("GET", path + "/{name}", parts | {"name": name}), types.HelixJobTaskResponse)


def update_job_step_task(
    *,
    job: str,
    step: str,
    name: str,
    body: types.HelixJobTaskUpdate | Fields,
    attempt: str | None = None,
    workspace: str | None = None,
) -> TaskCall:
    """Create a task, or report its progress."""
    path, parts = _tasks(job, step, attempt, workspace)
    update = checked(types.HelixJobTaskUpdate, body)
    request = Request("PUT", path + "/{name}", parts | {"name": name}, body=update)
    return single(request, types.HelixJobTaskResponse)


def create_job_result(
    *, job: str, name: str, body: types.CreateHelixJobResultRequest | Fields, workspace: str | None = None
) -> ResultCall:
    """Record where an artifact of the job is."""
    parts = {"job": job, "name": name, "workspace": workspace}
    pointer = checked(types.CreateHelixJobResultRequest, body)
    return single(Request("POST", JOB + "/results/{name}", parts, body=pointer), types.HelixJobResultResponse)


def list_job_results(
    *,
    name: str | None = None,
    job: str | None = None,
    query_params: types.ListResultsQueryParams | Fields | None = None,
    workspace: str | None = None,
) -> Call[
    responses.PagedResponse[types.HelixJobResultResponse],
    responses.AsyncPagedResponse[types.HelixJobResultResponse],
]:
    """List a job's results; the job is given as ``name`` or as ``job``."""
    query = parameters(types.ListResultsQueryParams, query_params)
    parts = {"job": _one_job("list_job_results", name, job), "workspace": workspace}
    return paged(Request("GET", JOB + "/results", parts, query), types.HelixJobResultResponse)


def get_job_result(*, job: str, name: str, workspace: str | None = None) -> ResultCall:
    """Get one result of a job."""
    parts = {"job": job, "name": name, "workspace": workspace}
    return single(Request("GET", JOB + "/results/{name}", parts), types.HelixJobResultResponse)


def download_job_result(
    *, job: str, name: str, workspace: str | None = None
) -> Call[streams.BinaryResponse, streams.AsyncBinaryResponse]:
    """Fetch a result's bytes; a folder comes as a tar file."""
    parts = {"job": job, "name": name, "workspace": workspace}
    return binary(Request("GET", JOB + "/results/{name}/download", parts, headers={"Accept": "*/*"}))


def list_job_logs(
    *,
    name: str,
    query_params: types.JobLogsQueryParams | Fields | None = None,
    workspace: str | None = None,
) -> Call[responses.LogResponse, responses.AsyncLogResponse]:
    """Read a job's log by pages, or its last lines."""
    query = parameters(types.JobLogsQueryParams, query_params)
    return logs(Request("GET", JOB + "/logs", {"job": name, "workspace": workspace}, query))


def list_job_checkpoints(
    *, job: str, workspace: str | None = None
) -> Call[responses.PagedResponse[types.Checkpoint], responses.AsyncPagedResponse[types.Checkpoint]]:
    """List a job's checkpoints, in its storage and pinned."""
    request = Request("GET", JOB + "/checkpoints", {"job": job, "workspace": workspace})
    return paged(request, types.Checkpoint)


def get_job_checkpoint(*, job: str, id: str, workspace: str | None = None) -> CheckpointCall:  # noqa: A002
    """Get one checkpoint."""
    return _on_checkpoint("GET", "", job, id, workspace)


def pin_job_checkpoint(*, job: str, id: str, workspace: str | None = None) -> CheckpointCall:  # noqa: A002
    """Copy a checkpoint out of the job's storage, so that it outlives the window that deletes it."""
    return _on_checkpoint("POST", "/pin", job, id, workspace)


def unpin_job_checkpoint(*, job: str, id: str, workspace: str | None = None) -> CheckpointCall:  # noqa: A002
    """Delete the copy that a pin made."""
    return _on_checkpoint("DELETE", "/pin", job, id, workspace)


def _on_checkpoint(
    method: str, suffix: str, job: str, identity: str, workspace: str | None
) -> CheckpointCall:
    parts = {"job": job, "id": identity, "workspace": workspace}
    return single(Request(method, JOB + "/checkpoints/{id}" + suffix, parts), types.Checkpoint)


def _tasks(
    job: str, step: str, attempt: str | None, workspace: str | None
) -> tuple[str, dict[str, str | None]]:
    parts: dict[str, str | None] = {"job": job, "step": step, "workspace": workspace}
    if attempt is None:
        return JOB + "/steps/{step}/tasks", parts
    return ATTEMPT + "/steps/{step}/tasks", parts | {"attempt": attempt}


def _one_job(method: str, name: str | None, job: str | None) -> str:
    given = name if job is None else job
    if given is None or (name is not None and job is not None):
        raise TypeError(f"{method}() takes the job's name once: {method}(name=…)")
    return given
