"""What routes need of a request: who asks, whether they may, and the parts of the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from nemo_helix_server.api.parts import Parts
from nemo_helix_server.auth import roles
from nemo_helix_server.auth.authentication import Principal
from nemo_helix_server.auth.roles import Role
from nemo_helix_server.errors import ForbiddenError, UnauthenticatedError
from nemo_helix_server.jobs.model import Caller

_BEARER = HTTPBearer(
    auto_error=False,
    description="An access token of `nemo auth token create`; a service on loopback does not ask for one.",
)
_LONGEST = 256

PathName = Annotated[str, Path(min_length=1, max_length=_LONGEST)]
"""A name or id in a path."""


def parts(request: Request) -> Parts:
    """The parts of the service that this request came to."""
    found = request.app.state.parts
    assert isinstance(found, Parts)
    return found


def principal(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
    service: Annotated[Parts, Depends(parts)],
) -> Principal:
    """Who asks."""
    if credentials is None and request.headers.get("authorization"):
        raise UnauthenticatedError("the header Authorization must be `Bearer` and an access token")
    return service.authenticator.principal(credentials.credentials if credentials else None)


@dataclass(frozen=True, slots=True)
class Needs:
    """A dependency: the caller, who has at least this role in the workspace of the path."""

    role: Role

    def __call__(self, request: Request, who: Annotated[Principal, Depends(principal)]) -> Caller:
        """The caller, unless a step's token, a role or a workspace forbids it."""
        if who.claims is not None:
            raise ForbiddenError(
                f"the token of the step '{who.claims.step}' may only read that step and write its own task"
            )
        roles.check_role(who.caller, self.role)
        workspace = request.path_params.get("workspace")
        if workspace is not None:
            roles.check_workspace(who.caller, workspace)
        return who.caller


@dataclass(frozen=True, slots=True)
class NeedsOrStep:
    """A dependency as `Needs`, that also lets the step itself through."""

    role: Role

    def __call__(self, request: Request, who: Annotated[Principal, Depends(principal)]) -> Caller:
        """The caller, unless a role, a workspace or the step's own bounds forbid it."""
        if who.claims is None:
            return Needs(self.role)(request, who)
        path = request.path_params
        who.check_own(path["workspace"], path["job"], path.get("step"), path.get("task"))
        return who.caller


@dataclass(frozen=True, slots=True)
class NeedsEverywhere:
    """A dependency as `Needs`, for what concerns all workspaces."""

    role: Role

    def __call__(self, who: Annotated[Principal, Depends(principal)]) -> Caller:
        """The caller, unless a step's token, a role or a confinement to one workspace forbids it."""
        if who.claims is not None:
            raise ForbiddenError("the token of a step may only read that step and write its own task")
        roles.check_role(who.caller, self.role)
        roles.check_unconfined(who.caller)
        return who.caller


Service = Annotated[Parts, Depends(parts)]

READS = [Depends(Needs(Role.READ))]
"""For routes that need not know who asks: it is somebody who may read in the path's workspace."""
READS_OR_STEP = [Depends(NeedsOrStep(Role.READ))]
OPERATES = [Depends(Needs(Role.OPERATE))]
ADMINISTERS_OR_STEP = [Depends(NeedsOrStep(Role.ADMIN))]
ADMINISTERS_EVERYWHERE = [Depends(NeedsEverywhere(Role.ADMIN))]

Reader = Annotated[Caller, READS[0]]
"""For routes that want to know who asks."""
Operator = Annotated[Caller, OPERATES[0]]
Admin = Annotated[Caller, Depends(Needs(Role.ADMIN))]
StepOrAdmin = Annotated[Caller, ADMINISTERS_OR_STEP[0]]
AdminEverywhere = Annotated[Caller, ADMINISTERS_EVERYWHERE[0]]
