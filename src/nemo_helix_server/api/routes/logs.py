"""Routes of logs: pages over what the steps of a job wrote."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from nemo_helix_plugin.jobs import types
from nemo_helix_server.api.access import READS, PathName, Service
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.problems import answers
from nemo_helix_server.api.routes.jobs import JOBS
from nemo_helix_server.logs.pages import Selection

router = make_router(JOBS, ["logs"])
Document = dict[str, Any]
Lines = Annotated[int | None, Query(ge=1, le=10_000)]
Selector = Annotated[str | None, Query(max_length=256)]


@router.get(
    "/{job}/logs", response_model=types.HelixJobLogPage, responses=answers(404, 422), dependencies=READS
)
def list_logs(
    workspace: PathName,
    job: PathName,
    service: Service,
    limit: Lines = None,
    page_cursor: Annotated[str | None, Query(max_length=1000)] = None,
    tail: Lines = None,
    attempt_id: Selector = None,
    step_id: Annotated[str | None, Query(max_length=256, description="The step's **name**.")] = None,
    task_id: Selector = None,
) -> Document:
    """A page of log lines, the oldest first; `tail` is for the last ones, without cursor and limit."""
    selection = Selection(attempt=attempt_id, step=step_id, task=task_id)
    return service.logs.page(workspace, job, selection, limit=limit, cursor=page_cursor, tail=tail)
