"""Routes of fine-tuning: jobs by backend, what a backend takes, and saved specs.

Pausing, resuming and rerunning goes through the routes of jobs, as for every job.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from nemo_helix_plugin.customization import requests
from nemo_helix_plugin.jobs import types
from nemo_helix_server.api import paging
from nemo_helix_server.api.access import OPERATES, READS, Operator, PathName, Service
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.problems import answers
from nemo_helix_server.api.routes import logs, results
from nemo_helix_server.jobs.filtering import parse

ROOT = "/apis/customization/v2"
JOBS = ROOT + "/workspaces/{workspace}/{backend}/jobs"
TEMPLATES = ROOT + "/workspaces/{workspace}/job-templates"
router = make_router(tags=["customization"])
Document = dict[str, Any]
BackendName = Annotated[requests.BackendName, Path(description="Which backend trains.")]
_LIST_PARAMETERS = frozenset({"page", "page_size", "sort"})


@router.get(
    ROOT + "/healthz", response_model=requests.CustomizationHealth, responses=answers(), dependencies=READS
)
def customization_health(service: Service) -> Document:
    """Whether there is anything to train with, engine by engine."""
    return service.customizer.health()


@router.get(
    ROOT + "/workspaces/{workspace}/{backend}/explain",
    response_model=requests.Explanation,
    responses=answers(404, 422),
    dependencies=READS,
)
def explain_backend(workspace: PathName, backend: BackendName, service: Service) -> Document:  # noqa: ARG001 - in the path
    """JSON schemas of what a backend takes and stores, what it refuses, and its engine's state."""
    return service.customizer.explain(backend)


@router.post(
    ROOT + "/workspaces/{workspace}/{backend}/preview",
    response_model=requests.Preview,
    responses=answers(404, 409, 422),
)
def preview_training(
    workspace: PathName,
    backend: BackendName,
    body: requests.PreviewRequest,
    caller: Operator,
    service: Service,
) -> Document:
    """What a job of this spec would learn of its first rows, decoded and marked, and what would be cut."""
    return service.customizer.preview(caller, workspace, backend, body)


@router.post(
    ROOT + "/workspaces/{workspace}/{backend}/dry-run",
    response_model=requests.DryRun,
    responses=answers(404, 409, 422),
)
def try_customization_job(
    workspace: PathName,
    backend: BackendName,
    body: requests.CreateCustomizationJobRequest,
    caller: Operator,
    service: Service,
) -> Document:
    """Check a job whole, rows, names, memory and disk included, and say what it would take; make none."""
    return service.customizer.dry_run(caller, workspace, backend, body)


@router.post(
    JOBS,
    status_code=201,
    response_model=types.HelixJobResponse,
    responses={
        **answers(404, 409, 422),
        200: {"model": types.HelixJobResponse, "description": "It was made before."},
    },
)
def create_customization_job(
    workspace: PathName,
    backend: BackendName,
    body: requests.CreateCustomizationJobRequest,
    response: Response,
    caller: Operator,
    service: Service,
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=255, description="The same key gives the job that was made before."),
    ] = None,
) -> Document:
    """Make a fine-tuning job; what is not supported is refused by name, before there is a job."""
    document, new = service.customizer.create(caller, workspace, backend, body, client_token=idempotency_key)
    response.status_code = 201 if new else 200
    return document


@router.get(
    JOBS,
    response_model=types.Page[types.HelixJobResponse],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_customization_jobs(
    request: Request,
    workspace: PathName,
    backend: BackendName,
    service: Service,
    page: paging.Page = 1,
    page_size: paging.PageSize = 10,
    sort: types.JobSort = types.JobSort.CREATED_AT_DESCENDING,
    filter: Annotated[str | None, Query(description="As for jobs.")] = None,  # noqa: A002, ARG001 - read below
) -> Document:
    """One page of a backend's jobs."""
    parsed = parse.parse(paging.filter_pairs(request, _LIST_PARAMETERS))
    return service.customizer.list_jobs(
        workspace, backend, parsed.tree, sort=sort, page=page, page_size=page_size, echo=parsed.echo
    )


@router.get(
    JOBS + "/{name}",
    response_model=types.HelixJobResponse,
    responses=answers(404, 422),
    dependencies=READS,
)
def get_customization_job(
    workspace: PathName, backend: BackendName, name: PathName, service: Service
) -> Document:
    """One job of a backend."""
    return service.customizer.get(workspace, backend, name)


@router.get(
    JOBS + "/{name}/status",
    response_model=types.HelixJobStatusResponse,
    responses=answers(404, 422),
    dependencies=READS,
)
def get_customization_job_status(
    workspace: PathName, backend: BackendName, name: PathName, service: Service
) -> Document:
    """The current attempt as a tree: job, steps, tasks."""
    service.customizer.get(workspace, backend, name)
    return service.jobs.status(workspace, name)


@router.delete(JOBS + "/{name}", status_code=204, responses=answers(404, 409, 422))
def delete_customization_job(
    workspace: PathName, backend: BackendName, name: PathName, caller: Operator, service: Service
) -> None:
    """Have a finished job removed; the model it made stays."""
    service.customizer.get(workspace, backend, name)
    service.jobs.delete(caller, workspace, name)


@router.post(JOBS + "/{name}/cancel", response_model=types.HelixJobResponse, responses=answers(404, 409, 422))
def cancel_customization_job(
    workspace: PathName, backend: BackendName, name: PathName, caller: Operator, service: Service
) -> Document:
    """Stop a job for good; nothing is uploaded of it."""
    service.customizer.get(workspace, backend, name)
    return service.jobs.cancel(caller, workspace, name)


@router.get(
    JOBS + "/{name}/logs",
    response_model=types.HelixJobLogPage,
    responses=answers(404, 422),
    dependencies=READS,
)
def list_customization_job_logs(
    workspace: PathName,
    backend: BackendName,
    name: PathName,
    service: Service,
    limit: logs.Lines = None,
    page_cursor: Annotated[str | None, Query(max_length=1000)] = None,
    tail: logs.Lines = None,
    attempt_id: logs.Selector = None,
    step_id: logs.Selector = None,
    task_id: logs.Selector = None,
) -> Document:
    """A page of log lines, the oldest first."""
    service.customizer.get(workspace, backend, name)
    return logs.list_logs(workspace, name, service, limit, page_cursor, tail, attempt_id, step_id, task_id)


@router.get(
    JOBS + "/{name}/results",
    response_model=types.Page[types.HelixJobResultResponse],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_customization_job_results(
    workspace: PathName, backend: BackendName, name: PathName, service: Service
) -> Document:
    """The results of a job."""
    service.customizer.get(workspace, backend, name)
    return service.jobs.results(workspace, name, attempt=None, sort="created_at")


@router.get(
    JOBS + "/{job}/results/{name}",
    response_model=types.HelixJobResultResponse,
    responses=answers(404, 422),
    dependencies=READS,
)
def get_customization_job_result(
    workspace: PathName, backend: BackendName, job: PathName, name: PathName, service: Service
) -> Document:
    """One result."""
    service.customizer.get(workspace, backend, job)
    return service.jobs.result(workspace, job, name)


@router.get(
    JOBS + "/{job}/results/{name}/download",
    response_class=StreamingResponse,
    responses={
        **answers(404, 422),
        200: {
            "description": "The file, or the folder as a tar file.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
    },
    dependencies=READS,
)
def download_customization_job_result(
    workspace: PathName, backend: BackendName, job: PathName, name: PathName, service: Service
) -> StreamingResponse:
    """The bytes of a result."""
    service.customizer.get(workspace, backend, job)
    return results.download_result(workspace, job, name, service)


@router.get(
    TEMPLATES,
    response_model=types.Page[requests.JobTemplate],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_job_templates(
    workspace: PathName,
    service: Service,
    page: paging.Page = 1,
    page_size: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Document:
    """One page of saved specs."""
    return service.templates.page(workspace, page, page_size)


@router.post(
    TEMPLATES, status_code=201, response_model=requests.JobTemplate, responses=answers(404, 409, 422)
)
def create_job_template(
    workspace: PathName, body: requests.CreateJobTemplateRequest, caller: Operator, service: Service
) -> Document:
    """Save a spec; it is validated when it is submitted."""
    return service.templates.create(caller, workspace, body)


@router.get(
    TEMPLATES + "/{name}",
    response_model=requests.JobTemplate,
    responses=answers(404, 422),
    dependencies=READS,
)
def get_job_template(workspace: PathName, name: PathName, service: Service) -> Document:
    """One saved spec."""
    return service.templates.get(workspace, name)


@router.patch(
    TEMPLATES + "/{name}",
    response_model=requests.JobTemplate,
    responses=answers(404, 422),
    dependencies=OPERATES,
)
def update_job_template(
    workspace: PathName, name: PathName, body: requests.UpdateJobTemplateRequest, service: Service
) -> Document:
    """Change a saved spec."""
    return service.templates.update(workspace, name, body)


@router.delete(TEMPLATES + "/{name}", status_code=204, responses=answers(404, 422), dependencies=OPERATES)
def delete_job_template(workspace: PathName, name: PathName, service: Service) -> None:
    """Forget a saved spec."""
    service.templates.delete(workspace, name)
