"""Requests and responses of the workspaces, secrets and tokens routes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints, field_serializer

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.jobs import models, names

ShortText = Annotated[str, StringConstraints(max_length=4096)]


class CreateWorkspaceRequest(models.RequestModel):
    """A new workspace."""

    name: names.EntityName
    description: ShortText | None = None


class Workspace(models.ResponseModel):
    """A namespace of jobs and secrets."""

    id: str | None = None
    name: str
    description: str | None = None
    jobs: int | None = None
    storage_bytes: int | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None


class SecretValue(models.RequestModel):
    """A secret's value on its way to the service; it shows as asterisks wherever it is printed."""

    value: SecretStr

    @field_serializer("value", when_used="json")
    def _reveal(self, value: SecretStr) -> str:
        return value.get_secret_value()


class CreateSecretRequest(SecretValue):
    """A new secret."""

    name: names.EntityName
    description: ShortText | None = None


class UpdateSecretRequest(SecretValue):
    """A secret's new value."""


class Secret(models.ResponseModel):
    """What may be known of a secret: never its value."""

    id: str | None = None
    name: str
    workspace: str | None = None
    description: str | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None


class CreateTokenRequest(models.RequestModel):
    """A new access token."""

    name: names.EntityName | None = None
    role: Role
    workspace: names.EntityName | None = None
    """The only workspace in which it is valid; None: everywhere."""
    expires_in_seconds: int | None = Field(default=None, ge=1, le=10**10, strict=True)


class AccessToken(models.ResponseModel):
    """What may be known of an access token: never the token."""

    id: str
    name: str | None = None
    role: str
    workspace: str | None = None
    created_at: models.Moment | None = None
    expires_at: models.Moment | None = None
    last_used_at: models.Moment | None = None
    revoked_at: models.Moment | None = None


class CreatedAccessToken(AccessToken):
    """A token just made; the only answer that ever holds it."""

    token: SecretStr = Field(json_schema_extra={"writeOnly": False, "readOnly": True})
    note: str | None = None
    """What its holder could do beyond it, if anything."""

    @field_serializer("token", when_used="json")
    def _reveal(self, token: SecretStr) -> str:
        return token.get_secret_value()
