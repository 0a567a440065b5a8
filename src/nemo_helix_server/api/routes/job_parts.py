"""Routes of what a job consists of: attempts, steps and tasks; what workloads poll and write to."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response

from nemo_helix_plugin.jobs import types
from nemo_helix_server.api import paging
from nemo_helix_server.api.access import (
    ADMINISTERS_OR_STEP,
    READS,
    READS_OR_STEP,
    Admin,
    PathName,
    Service,
    StepOrAdmin,
)
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.metrics_response import metrics_response
from nemo_helix_server.api.problems import answers
from nemo_helix_server.api.routes.jobs import JOBS, FreeBody
from nemo_helix_server.errors import MalformedRequestError

router = make_router(JOBS, ["attempts, steps and tasks"])
Document = dict[str, Any]
AttemptFilter = Annotated[
    str | None, Query(description="By `status`, as `filter[status]=error,cancelled` or as JSON.")
]
StepFilter = Annotated[
    str | None, Query(description="By `status`, `job` and `source`, as `filter[status]=active` or as JSON.")
]
_LIST_PARAMETERS = frozenset({"page", "page_size", "sort"})


@router.get(
    "/{job}/attempts",
    response_model=types.Page[types.HelixJobAttemptResponse],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_attempts(
    request: Request,
    workspace: PathName,
    job: PathName,
    service: Service,
    page: paging.Page = 1,
    page_size: paging.PageSize = 25,
    sort: types.AttemptSort = types.AttemptSort.SEQ_DESCENDING,
    filter: AttemptFilter = None,  # noqa: A002, ARG001 - documented here, read below
) -> Document:
    """The runs of a job, the newest first."""
    wanted = paging.choices(request, _LIST_PARAMETERS, ("status",))
    statuses = paging.statuses(wanted.get("status"))
    return service.jobs.attempts(workspace, job, statuses=statuses, sort=sort, page=page, page_size=page_size)


@router.get(
    "/{job}/attempts/{attempt}",
    response_model=types.HelixJobAttemptResponse,
    responses=answers(404, 422),
    dependencies=READS,
)
def get_attempt(workspace: PathName, job: PathName, attempt: PathName, service: Service) -> Response:
    """One run, by its id or as `current`."""
    return metrics_response(types.HelixJobAttemptResponse, service.jobs.attempt(workspace, job, attempt))


@router.patch(
    "/{job}/attempts/{attempt}/status-details",
    response_model=types.HelixJobResponse,
    responses=answers(404, 409, 422),
    dependencies=ADMINISTERS_OR_STEP,
)
def update_attempt_status_details(
    workspace: PathName,
    job: PathName,
    attempt: PathName,
    body: FreeBody,
    service: Service,
    expected_step_id: Annotated[str | None, Query(max_length=256)] = None,
    expected_step_status: Annotated[types.HelixJobStatus | None, Query()] = None,
) -> Document:
    """Merge into an attempt's details, unless its current step is not the expected one any more."""
    return service.jobs.merge_status_details(
        workspace,
        job,
        body,
        attempt=attempt,
        expected_step_id=expected_step_id,
        expected_step_status=expected_step_status,
    )


@router.get(
    "/{job}/attempts/{attempt}/steps",
    response_model=types.Page[types.HelixJobStepResponse],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_attempt_steps(
    workspace: PathName,
    job: PathName,
    attempt: PathName,
    service: Service,
) -> Document:
    """The steps of one run that exist already."""
    return service.jobs.steps(workspace, job, attempt=attempt)


@router.get(
    "/{job}/steps",
    response_model=types.Page[types.HelixJobStepWithContext],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_steps(
    request: Request,
    workspace: PathName,
    job: PathName,
    service: Service,
    page: paging.Page = 1,
    page_size: paging.PageSize = 25,
    filter: StepFilter = None,  # noqa: A002, ARG001 - documented here, read below
) -> Document:
    """Steps of current runs; `-` is every workspace, and every job."""
    wanted = paging.choices(request, _LIST_PARAMETERS, ("status", "job", "source"))
    return service.jobs.list_steps(
        workspace,
        _only(wanted.get("job"), job),
        statuses=paging.statuses(wanted.get("status")),
        source=_only(wanted.get("source"), None),
        page=page,
        page_size=page_size,
    )


@router.get(
    "/{job}/steps/{step}",
    response_model=types.HelixJobStepResponse,
    responses=answers(404, 422),
    dependencies=READS_OR_STEP,
)
def get_step(workspace: PathName, job: PathName, step: PathName, service: Service) -> Document:
    """One step of the current run, by its name: what a workload polls to see that it should pause."""
    return service.jobs.step(workspace, job, step)


@router.patch(
    "/{job}/steps/{step}/status", response_model=types.HelixJobStepResponse, responses=answers(404, 409, 422)
)
def update_step_status(
    workspace: PathName,
    job: PathName,
    step: PathName,
    body: types.HelixJobStepStatusUpdate,
    caller: Admin,
    service: Service,
) -> Document:
    """Move a step of the current run to a status that its present one allows."""
    return service.jobs.update_step_status(caller, workspace, job, step, body)


@router.patch(
    "/{job}/attempts/{attempt}/steps/{step}/status",
    response_model=types.HelixJobStepResponse,
    responses=answers(404, 409, 422),
)
def update_attempt_step_status(
    workspace: PathName,
    job: PathName,
    attempt: PathName,
    step: PathName,
    body: types.HelixJobStepStatusUpdate,
    caller: Admin,
    service: Service,
) -> Document:
    """Move a step of one run to a status that its present one allows."""
    return service.jobs.update_step_status(caller, workspace, job, step, body, attempt=attempt)


@router.get(
    "/{job}/steps/{step}/tasks",
    response_model=types.Page[types.HelixJobTaskResponse],
    responses=answers(404, 422),
    dependencies=READS_OR_STEP,
)
def list_tasks(workspace: PathName, job: PathName, step: PathName, service: Service) -> Document:
    """The processes of a step of the current run."""
    return service.jobs.tasks(workspace, job, step)


@router.get(
    "/{job}/attempts/{attempt}/steps/{step}/tasks",
    response_model=types.Page[types.HelixJobTaskResponse],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_attempt_tasks(
    workspace: PathName,
    job: PathName,
    attempt: PathName,
    step: PathName,
    service: Service,
) -> Document:
    """The processes of a step of one run."""
    return service.jobs.tasks(workspace, job, step, attempt=attempt)


@router.get(
    "/{job}/steps/{step}/tasks/{task}",
    response_model=types.HelixJobTaskResponse,
    responses=answers(404, 422),
    dependencies=READS_OR_STEP,
)
def get_task(
    workspace: PathName,
    job: PathName,
    step: PathName,
    task: PathName,
    service: Service,
) -> Document:
    """One process of a step of the current run."""
    return service.jobs.task(workspace, job, step, task)


@router.put(
    "/{job}/steps/{step}/tasks/{task}",
    response_model=types.HelixJobTaskResponse,
    responses=answers(404, 409, 422),
)
def put_task(
    workspace: PathName,
    job: PathName,
    step: PathName,
    task: PathName,
    body: types.HelixJobTaskUpdate,
    caller: StepOrAdmin,
    service: Service,
) -> Document:
    """Record the progress of a process."""
    return service.jobs.put_task(caller, workspace, job, step, task, body)


@router.put(
    "/{job}/attempts/{attempt}/steps/{step}/tasks/{task}",
    response_model=types.HelixJobTaskResponse,
    responses=answers(404, 409, 422),
)
def put_attempt_task(
    workspace: PathName,
    job: PathName,
    attempt: PathName,
    step: PathName,
    task: PathName,
    body: types.HelixJobTaskUpdate,
    caller: StepOrAdmin,
    service: Service,
) -> Document:
    """Record the progress of a process of one run."""
    return service.jobs.put_task(caller, workspace, job, step, task, body, attempt=attempt)


def _only(values: frozenset[str] | None, default: Any) -> Any:
    """The one value of a filter that takes no more than one."""
    if values is None:
        return default
    if len(values) != 1:
        raise MalformedRequestError("a step is filtered by one job and one source at a time")
    return next(iter(values))
