"""Routes of models: whole ones and adapters, by name."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.jobs.models import Page
from nemo_helix_plugin.jobs.requests import CreateHelixJobResultRequest
from nemo_helix_plugin.models import types
from nemo_helix_server.api import access, paging
from nemo_helix_server.api.access import OPERATES, READS, Needs, PathName, Service
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.problems import answers
from nemo_helix_server.auth.authentication import Principal
from nemo_helix_server.auth.step_tokens import Claims
from nemo_helix_server.customizer.compile import REGISTER
from nemo_helix_server.customizer.names import SOURCE
from nemo_helix_server.errors import ForbiddenError, StateConflictError
from nemo_helix_server.jobs.model import Caller

MODELS = "/apis/models/v2/workspaces/{workspace}/models"
router = make_router(MODELS, ["models"])
Document = dict[str, Any]
MODEL_RESULT = "model"
"""The result of a customization job that is its model."""


class _Registrar(Needs):
    """An operator, or the last step of the customization job that made the model."""

    looks_up = True

    def check(self, request: Request, who: Principal) -> None:
        """See `Access`."""
        if who.claims is None:
            super().check(request, who)
            return
        job = _own_job(request, who.claims)
        mine = request.path_params["workspace"] == who.claims.workspace
        if not mine or who.claims.step != REGISTER or job["source"] != SOURCE:
            raise _not_its_own(who.claims)

    def check_body(self, request: Request, who: Principal, body: Any) -> None:
        """See `Access`."""
        if who.claims is None or not isinstance(body, dict):
            return
        wanted = (who.claims.job, _output(_own_job(request, who.claims)))
        if (body.get("created_by_job"), body.get("name")) != wanted:
            raise _not_its_own(who.claims)


class _ReaderOrStep(Needs):
    """Everybody who may read in the workspace, or a step that looks for the model that its own job is to
    make.
    """

    looks_up = True

    def check(self, request: Request, who: Principal) -> None:
        """See `Access`."""
        if who.claims is None:
            super().check(request, who)
            return
        job, path = _own_job(request, who.claims), request.path_params
        mine = path["workspace"] == who.claims.workspace and job["source"] == SOURCE
        if not mine or path["name"] != _output(job):
            raise ForbiddenError(
                f"the token of the step '{who.claims.step}' of '{who.claims.job}' may not read this model"
            )


def _own_job(request: Request, own: Claims) -> Document:
    return access.parts(request).jobs.get(own.workspace, own.job_id)


def _not_its_own(own: Claims) -> ForbiddenError:
    return ForbiddenError(f"the token of the step '{own.step}' of '{own.job}' may not register this model")


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
    request: Request,
    response: Response,
    caller: Annotated[Caller, Depends(_Registrar(Role.OPERATE))],
    service: Service,
) -> Document:
    """Register a model whose weights are in a fileset."""
    document = body.model_dump(mode="json", exclude={"name"})
    shown, new = service.models.create(caller, workspace, body.name, document)
    response.status_code = 201 if new else 200
    claims = request.state.principal.claims
    if claims is not None:  # the job's own last step: what it made is a result of the job, too
        result = CreateHelixJobResultRequest(artifact_url=f"fileset://{workspace}/{body.fileset}")
        with suppress(StateConflictError):  # it was registered before
            service.jobs.create_result(caller, workspace, claims.job_id, MODEL_RESULT, result)
    return shown


@router.get(
    "/{name}",
    response_model=types.Model,
    responses=answers(404, 422),
    dependencies=[Depends(_ReaderOrStep(Role.READ))],
)
def get_model(workspace: PathName, name: PathName, service: Service) -> Document:
    """One model."""
    return service.models.get(workspace, name)


@router.delete("/{name}", status_code=204, responses=answers(404, 422), dependencies=OPERATES)
def delete_model(workspace: PathName, name: PathName, service: Service) -> None:
    """Forget a model; its fileset stays."""
    service.models.delete(workspace, name)
