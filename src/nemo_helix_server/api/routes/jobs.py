"""Routes of jobs: making, listing, looking at, changing and removing them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Depends, Header, Query, Request, Response
from pydantic import JsonValue

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.jobs import types
from nemo_helix_server.api import paging
from nemo_helix_server.api.access import (
    ADMINISTERS_OR_STEP,
    READS,
    Admin,
    Needs,
    Operator,
    PathName,
    Service,
)
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.metrics_response import metrics_response
from nemo_helix_server.api.problems import answers
from nemo_helix_server.auth.authentication import Principal
from nemo_helix_server.jobs.filtering import parse
from nemo_helix_server.jobs.model import Caller

JOBS = "/apis/jobs/v2/workspaces/{workspace}/jobs"
router = make_router(JOBS, ["jobs"])
Document = dict[str, Any]
FreeBody = Annotated[dict[str, JsonValue], Body()]
"""Any JSON object; `bodies` has refused what cannot be kept."""

_LIST_PARAMETERS = frozenset({"page", "page_size", "sort"})
_FILTER_HELP = (
    'JSON (`{"status": "error"}`) or text (`status:"error" AND name~"llama"`); '
    "each field can be given as `filter[status]=error` or `filter[created_at][gte]=2026-01-01` as well."
)


class _MayChange(Needs):
    """As `Needs`, and an administrator where the commands of the job are changed."""

    def check_body(self, request: Request, who: Principal, body: Any) -> None:
        """See `Access`."""
        if isinstance(body, dict) and body.get("platform_spec") is not None:
            Needs(Role.ADMIN).check(request, who)


Changer = Annotated[Caller, Depends(_MayChange(Role.OPERATE))]


@router.post(
    "",
    status_code=201,
    response_model=types.HelixJobResponse,
    responses={
        **answers(404, 409, 422),
        200: {"model": types.HelixJobResponse, "description": "It was made before."},
    },
)
def create_job(
    workspace: PathName,
    body: types.CreateHelixJobRequest,
    caller: Admin,
    service: Service,
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=255, description="The same key gives the job that was made before."),
    ] = None,
) -> Response:
    """Make a job. A repeated request with the same key, or the same name and body, answers 200."""
    service.profiles.check(body.platform_spec)
    document, new = service.jobs.create(caller, workspace, body, client_token=idempotency_key)
    return metrics_response(types.HelixJobResponse, document, status=201 if new else 200)


@router.get(
    "", response_model=types.Page[types.HelixJobResponse], responses=answers(404, 422), dependencies=READS
)
def list_jobs(
    request: Request,
    workspace: PathName,
    service: Service,
    page: paging.Page = 1,
    page_size: paging.PageSize = 10,
    sort: types.JobSort = types.JobSort.CREATED_AT_DESCENDING,
    filter: Annotated[str | None, Query(description=_FILTER_HELP)] = None,  # noqa: A002, ARG001 - documented here, read below
) -> Document:
    """One page of jobs; the workspace `-` is all of them."""
    pairs = paging.filter_pairs(request, _LIST_PARAMETERS)
    parsed = parse.parse(pairs)
    return service.jobs.list_jobs(
        workspace, where=parsed.tree, sort=sort, page=page, page_size=page_size, echo=parsed.echo
    )


@router.get("/{name}", response_model=types.HelixJobResponse, responses=answers(404, 422), dependencies=READS)
def get_job(workspace: PathName, name: PathName, service: Service) -> Response:
    """One job, by name or id."""
    return metrics_response(types.HelixJobResponse, service.jobs.get(workspace, name))


@router.patch("/{name}", response_model=types.HelixJobResponse, responses=answers(404, 409, 422))
def update_job(
    workspace: PathName, name: PathName, body: types.UpdateHelixJobRequest, caller: Changer, service: Service
) -> Document:
    """Change the description, or the definition of later attempts."""
    if body.platform_spec is not None:
        service.profiles.check(body.platform_spec)
    return service.jobs.update(caller, workspace, name, body)


@router.delete("/{name}", status_code=204, responses=answers(404, 409, 422))
def delete_job(workspace: PathName, name: PathName, caller: Operator, service: Service) -> None:
    """Have a finished job removed; it is gone when it answers 404 by its id."""
    service.jobs.delete(caller, workspace, name)


@router.post("/{name}/pause", response_model=types.HelixJobResponse, responses=answers(404, 409, 422))
def pause_job(workspace: PathName, name: PathName, caller: Operator, service: Service) -> Response:
    """Have the current step save a checkpoint and stop."""
    return metrics_response(types.HelixJobResponse, service.jobs.pause(caller, workspace, name))


@router.post("/{name}/resume", response_model=types.HelixJobResponse, responses=answers(404, 409, 422))
def resume_job(workspace: PathName, name: PathName, caller: Operator, service: Service) -> Response:
    """Start a paused job's step again; while it is pausing, withdraw the pause."""
    return metrics_response(types.HelixJobResponse, service.jobs.resume(caller, workspace, name))


@router.post("/{name}/cancel", response_model=types.HelixJobResponse, responses=answers(404, 409, 422))
def cancel_job(workspace: PathName, name: PathName, caller: Operator, service: Service) -> Response:
    """Stop a job for good."""
    return metrics_response(types.HelixJobResponse, service.jobs.cancel(caller, workspace, name))


@router.post("/{job}/rerun", response_model=types.HelixJobResponse, responses=answers(404, 409, 422))
def rerun_job(
    workspace: PathName,
    job: PathName,
    caller: Operator,
    service: Service,
    checkpoint: Annotated[
        str | None, Query(max_length=256, description="Id of the checkpoint to start from.")
    ] = None,
) -> Document:
    """Start a new attempt of a failed job, from its newest verified checkpoint or the one named."""
    return service.jobs.rerun(caller, workspace, job, checkpoint=checkpoint)


@router.patch("/{name}/control", response_model=types.HelixJobResponse, responses=answers(404, 409, 422))
def update_job_control(
    workspace: PathName, name: PathName, body: types.JobControl, caller: Operator, service: Service
) -> Document:
    """Change how long the job's storage is kept."""
    return service.jobs.control(caller, workspace, name, body)


@router.get(
    "/{name}/status",
    response_model=types.HelixJobStatusResponse,
    responses=answers(404, 422),
    dependencies=READS,
)
def get_job_status(workspace: PathName, name: PathName, service: Service) -> Response:
    """The current attempt as a tree: job, steps, tasks."""
    return metrics_response(types.HelixJobStatusResponse, service.jobs.status(workspace, name))


@router.get("/{name}/bill", response_model=types.JobBill, responses=answers(404, 422), dependencies=READS)
def get_job_bill(workspace: PathName, name: PathName, service: Service) -> Document:
    """What each allocation of a job used, waited for, and lost."""
    return service.jobs.bill(workspace, name)


@router.patch(
    "/{job}/status-details",
    response_model=types.HelixJobResponse,
    responses=answers(404, 409, 422),
    dependencies=ADMINISTERS_OR_STEP,
)
def update_job_status_details(
    workspace: PathName, job: PathName, body: FreeBody, service: Service
) -> Document:
    """Merge into the details of the current attempt."""
    return service.jobs.merge_status_details(workspace, job, body)


@router.get(
    "/{name}/transitions",
    response_model=types.Page[types.Transition],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_transitions(
    workspace: PathName,
    name: PathName,
    service: Service,
    since: Annotated[int, Query(ge=0, le=2**62, description="Only those after this `seq`.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Document:
    """Every change of a status, who brought it about and why; oldest first."""
    return service.jobs.transitions(workspace, name, after=since, limit=limit)
