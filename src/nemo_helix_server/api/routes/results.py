"""Routes of results: named artifacts of a job, and their download."""

from __future__ import annotations

import urllib.parse
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import StreamingResponse

from nemo_helix_plugin.jobs import types
from nemo_helix_server.api.access import (
    READS,
    Operator,
    PathName,
    Service,
)
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.problems import answers
from nemo_helix_server.api.routes.jobs import JOBS

router = make_router(JOBS, ["results"])
Document = dict[str, Any]


class ResultSort(StrEnum):
    """Order of a job's results."""

    CREATED_AT = "created_at"
    CREATED_AT_DESCENDING = "-created_at"


@router.get(
    "/{job}/results",
    response_model=types.Page[types.HelixJobResultResponse],
    responses=answers(404, 422),
    dependencies=READS,
)
def list_results(
    workspace: PathName,
    job: PathName,
    service: Service,
    sort: ResultSort = ResultSort.CREATED_AT,
    attempt_id: Annotated[
        str | None, Query(max_length=256, description="An attempt's id, or `current`.")
    ] = None,
) -> Document:
    """The results of a job."""
    return service.jobs.results(workspace, job, attempt=attempt_id, sort=sort)


@router.post(
    "/{job}/results/{name}",
    status_code=201,
    response_model=types.HelixJobResultResponse,
    responses=answers(404, 409, 422),
)
def create_result(
    workspace: PathName,
    job: PathName,
    name: PathName,
    body: types.CreateHelixJobResultRequest,
    caller: Operator,
    service: Service,
) -> Document:
    """Name an artifact of the job's storage or filesets."""
    found = service.jobs.get(workspace, job)
    service.artifacts.check(body.artifact_url, workspace=found["workspace"], job=found["name"])
    return service.jobs.create_result(caller, workspace, job, name, body)


@router.get(
    "/{job}/results/{name}",
    response_model=types.HelixJobResultResponse,
    responses=answers(404, 422),
    dependencies=READS,
)
def get_result(workspace: PathName, job: PathName, name: PathName, service: Service) -> Document:
    """One result."""
    return service.jobs.result(workspace, job, name)


@router.get(
    "/{job}/results/{name}/download",
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
def download_result(
    workspace: PathName,
    job: PathName,
    name: PathName,
    service: Service,
) -> StreamingResponse:
    """The bytes of a result."""
    result = service.jobs.result(workspace, job, name)
    found = service.jobs.get(workspace, job)
    artifact = service.artifacts.find(
        result["artifact_url"], workspace=found["workspace"], job=found["name"], job_id=found["id"]
    )
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{urllib.parse.quote(artifact.name, safe='')}"
    }
    if artifact.size is not None:
        headers["content-length"] = str(artifact.size)
    return StreamingResponse(artifact.chunks(), media_type="application/octet-stream", headers=headers)
