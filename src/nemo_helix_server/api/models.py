"""Routes of models: whole ones and adapters, by name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from nemo_helix_plugin.jobs.models import Page
from nemo_helix_plugin.models import types
from nemo_helix_server.api import paging
from nemo_helix_server.api.access import OPERATES, READS, PathName, Service, principal
from nemo_helix_server.api.problems import answers
from nemo_helix_server.auth import roles
from nemo_helix_server.auth.authentication import Principal
from nemo_helix_server.auth.roles import Role
from nemo_helix_server.customizer.compile import REGISTER
from nemo_helix_server.customizer.names import SOURCE
from nemo_helix_server.errors import ForbiddenError
from nemo_helix_server.jobs.model import Caller

MODELS = "/apis/models/v2/workspaces/{workspace}/models"
router = APIRouter(prefix=MODELS, tags=["models"])
Document = dict[str, Any]


def registrar(
    workspace: PathName,
    body: types.CreateModelRequest,
    service: Service,
    who: Annotated[Principal, Depends(principal)],
) -> Caller:
    """Who may register this model: an operator, or the last step of the customization job that made it."""
    own = who.claims
    if own is None:
        roles.check_role(who.caller, Role.OPERATE)
        roles.check_workspace(who.caller, workspace)
        return who.caller
    job = service.jobs.get(own.workspace, own.job_id)
    mine = workspace == own.workspace and body.created_by_job == own.job and body.name == _output(job)
    if own.step != REGISTER or job["source"] != SOURCE or not mine:
        raise ForbiddenError(f"the token of the step '{own.step}' of '{own.job}' may not register this model")
    return who.caller


def _output(job: Document) -> str | None:
    output = (job["spec"] or {}).get("output")
    return output.get("name") if isinstance(output, dict) else None


@router.get("", response_model=Page[types.Model], responses=answers(404, 422), dependencies=READS)
def list_models(
    workspace: PathName, service: Service, page: paging.Page = 1, page_size: paging.PageSize = 25
) -> Document:
    """One page of a workspace's models, the newest first."""
    return service.models.page(workspace, page, page_size)


@router.post(
    "",
    status_code=201,
    response_model=types.Model,
    responses={
        **answers(404, 409, 422),
        200: {"model": types.Model, "description": "It was registered before."},
    },
)
def create_model(
    workspace: PathName,
    body: types.CreateModelRequest,
    response: Response,
    caller: Annotated[Caller, Depends(registrar)],
    service: Service,
) -> Document:
    """Register a model whose weights are in a fileset."""
    document = body.model_dump(mode="json", exclude={"name"})
    shown, new = service.models.create(caller, workspace, body.name, document)
    response.status_code = 201 if new else 200
    return shown


@router.get("/{name}", response_model=types.Model, responses=answers(404, 422), dependencies=READS)
def get_model(workspace: PathName, name: PathName, service: Service) -> Document:
    """One model."""
    return service.models.get(workspace, name)


@router.delete("/{name}", status_code=204, responses=answers(404, 422), dependencies=OPERATES)
def delete_model(workspace: PathName, name: PathName, service: Service) -> None:
    """Forget a model; its fileset stays."""
    service.models.delete(workspace, name)
