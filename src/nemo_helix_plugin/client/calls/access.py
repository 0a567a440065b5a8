"""Calls about workspaces, secrets and access tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_helix_plugin.access import types
from nemo_helix_plugin.client import responses
from nemo_helix_plugin.client.calls.call import Call, nothing, paged, single
from nemo_helix_plugin.client.calls.jobs import NothingCall
from nemo_helix_plugin.client.request import Request, checked

WORKSPACES = "/apis/workspaces/v2/workspaces"
SECRETS = "/apis/secrets/v2/workspaces/{workspace}/secrets"
TOKENS = "/apis/auth/v2/tokens"

Fields = Mapping[str, Any]
WorkspaceCall = Call[responses.NemoResponse[types.Workspace], responses.NemoResponse[types.Workspace]]
SecretCall = Call[responses.NemoResponse[types.Secret], responses.NemoResponse[types.Secret]]


def create_workspace(*, body: types.CreateWorkspaceRequest | Fields) -> WorkspaceCall:
    """Create a workspace."""
    request = Request("POST", WORKSPACES, body=checked(types.CreateWorkspaceRequest, body))
    return single(request, types.Workspace)


def list_workspaces() -> Call[
    responses.PagedResponse[types.Workspace], responses.AsyncPagedResponse[types.Workspace]
]:
    """List the workspaces."""
    return paged(Request("GET", WORKSPACES), types.Workspace)


def get_workspace(*, name: str) -> WorkspaceCall:
    """Get a workspace, with its sizes."""
    return single(Request("GET", WORKSPACES + "/{name}", {"name": name}), types.Workspace)


def delete_workspace(*, name: str) -> NothingCall:
    """Delete an empty workspace."""
    return nothing(Request("DELETE", WORKSPACES + "/{name}", {"name": name}))


def create_secret(*, body: types.CreateSecretRequest | Fields, workspace: str | None = None) -> SecretCall:
    """Store a secret; its value never comes back."""
    secret = checked(types.CreateSecretRequest, body)
    return single(Request("POST", SECRETS, {"workspace": workspace}, body=secret), types.Secret)


def list_secrets(
    *, workspace: str | None = None
) -> Call[responses.PagedResponse[types.Secret], responses.AsyncPagedResponse[types.Secret]]:
    """List the secrets of a workspace, without their values."""
    return paged(Request("GET", SECRETS, {"workspace": workspace}), types.Secret)


def get_secret(*, name: str, workspace: str | None = None) -> SecretCall:
    """Get what may be known of a secret."""
    return single(Request("GET", SECRETS + "/{name}", {"name": name, "workspace": workspace}), types.Secret)


def update_secret(
    *, name: str, body: types.UpdateSecretRequest | Fields, workspace: str | None = None
) -> SecretCall:
    """Give a secret a new value, for steps that start from now on."""
    value = checked(types.UpdateSecretRequest, body)
    parts = {"name": name, "workspace": workspace}
    return single(Request("PUT", SECRETS + "/{name}", parts, body=value), types.Secret)


def delete_secret(*, name: str, workspace: str | None = None) -> NothingCall:
    """Delete a secret."""
    return nothing(Request("DELETE", SECRETS + "/{name}", {"name": name, "workspace": workspace}))


def create_token(
    *, body: types.CreateTokenRequest | Fields
) -> Call[responses.NemoResponse[types.CreatedAccessToken], responses.NemoResponse[types.CreatedAccessToken]]:
    """Make an access token; this answer is the only one that holds it."""
    request = Request("POST", TOKENS, body=checked(types.CreateTokenRequest, body))
    return single(request, types.CreatedAccessToken)


def list_tokens() -> Call[
    responses.PagedResponse[types.AccessToken], responses.AsyncPagedResponse[types.AccessToken]
]:
    """List the access tokens, without the tokens."""
    return paged(Request("GET", TOKENS), types.AccessToken)


def revoke_token(*, id: str) -> NothingCall:  # noqa: A002 - the token's id
    """Make an access token useless from now on."""
    return nothing(Request("DELETE", TOKENS + "/{id}", {"id": id}))
