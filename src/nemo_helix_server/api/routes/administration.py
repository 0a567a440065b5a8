"""Routes of workspaces, secrets and access tokens."""

from __future__ import annotations

from typing import Any

from nemo_helix_plugin.access import types
from nemo_helix_plugin.jobs.models import Page
from nemo_helix_server.api.access import (
    ADMINISTERS_EVERYWHERE,
    OPERATES,
    READS,
    AdminEverywhere,
    Operator,
    PathName,
    Reader,
    Service,
)
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.problems import answers

router = make_router()
Document = dict[str, Any]

WORKSPACES = "/apis/workspaces/v2/workspaces"
SECRETS = "/apis/secrets/v2/workspaces/{workspace}/secrets"
TOKENS = "/apis/auth/v2/tokens"


@router.get(WORKSPACES, response_model=Page[types.Workspace], responses=answers(), tags=["workspaces"])
def list_workspaces(caller: Reader, service: Service) -> Document:
    """The workspaces that the caller may see."""
    return {"data": service.workspaces.all(caller.workspace)}


@router.post(
    WORKSPACES,
    status_code=201,
    response_model=types.Workspace,
    responses=answers(409, 422),
    tags=["workspaces"],
    dependencies=ADMINISTERS_EVERYWHERE,
)
def create_workspace(body: types.CreateWorkspaceRequest, service: Service) -> Document:
    """Make a workspace."""
    return service.workspaces.create(body.name, body.description)


@router.get(
    WORKSPACES + "/{workspace}",
    response_model=types.Workspace,
    responses=answers(404, 422),
    tags=["workspaces"],
    dependencies=READS,
)
def get_workspace(workspace: PathName, service: Service) -> Document:
    """One workspace, with the number of its jobs and what their storage takes."""
    return service.workspaces.get(workspace)


@router.delete(
    WORKSPACES + "/{workspace}",
    status_code=204,
    responses=answers(404, 409, 422),
    tags=["workspaces"],
    dependencies=ADMINISTERS_EVERYWHERE,
)
def delete_workspace(workspace: PathName, service: Service) -> None:
    """Remove an empty workspace."""
    service.workspaces.delete(workspace)


@router.get(
    SECRETS,
    response_model=Page[types.Secret],
    responses=answers(404, 422),
    tags=["secrets"],
    dependencies=READS,
)
def list_secrets(workspace: PathName, service: Service) -> Document:
    """Names of the secrets of a workspace; values are never shown."""
    return {"data": service.secrets.all(workspace)}


@router.post(
    SECRETS, status_code=201, response_model=types.Secret, responses=answers(404, 409, 422), tags=["secrets"]
)
def create_secret(
    workspace: PathName, body: types.CreateSecretRequest, caller: Operator, service: Service
) -> Document:
    """Keep a value under a name; jobs get it by that name."""
    value = body.value.get_secret_value()
    return service.secrets.create(caller, workspace, body.name, value, body.description)


@router.get(
    SECRETS + "/{name}",
    response_model=types.Secret,
    responses=answers(404, 422),
    tags=["secrets"],
    dependencies=READS,
)
def get_secret(workspace: PathName, name: PathName, service: Service) -> Document:
    """What may be known of one secret."""
    return service.secrets.get(workspace, name)


@router.put(
    SECRETS + "/{name}",
    response_model=types.Secret,
    responses=answers(404, 422),
    tags=["secrets"],
    dependencies=OPERATES,
)
def update_secret(
    workspace: PathName,
    name: PathName,
    body: types.UpdateSecretRequest,
    service: Service,
) -> Document:
    """Change a secret's value; steps that run keep the old one."""
    return service.secrets.update(workspace, name, body.value.get_secret_value())


@router.delete(
    SECRETS + "/{name}", status_code=204, responses=answers(404, 422), tags=["secrets"], dependencies=OPERATES
)
def delete_secret(workspace: PathName, name: PathName, service: Service) -> None:
    """Forget a secret."""
    service.secrets.delete(workspace, name)


@router.get(
    TOKENS,
    response_model=Page[types.AccessToken],
    responses=answers(),
    tags=["tokens"],
    dependencies=ADMINISTERS_EVERYWHERE,
)
def list_tokens(service: Service) -> Document:
    """All access tokens, revoked and expired ones too; never the tokens themselves."""
    return {"data": service.tokens.all()}


@router.post(
    TOKENS,
    status_code=201,
    response_model=types.CreatedAccessToken,
    responses=answers(409, 422),
    tags=["tokens"],
)
def create_token(body: types.CreateTokenRequest, caller: AdminEverywhere, service: Service) -> Document:
    """Make an access token; this answer is the only one that holds it."""
    return service.tokens.create(caller, body)


@router.delete(
    TOKENS + "/{token}",
    status_code=204,
    responses=answers(404, 422),
    tags=["tokens"],
    dependencies=ADMINISTERS_EVERYWHERE,
)
def revoke_token(token: PathName, service: Service) -> None:
    """Make a token, given by name or id, worthless."""
    service.tokens.revoke(token)
