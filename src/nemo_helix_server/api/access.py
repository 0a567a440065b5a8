"""What routes need of a request: who asks, whether they may, and the parts of the service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.api.parts import ServiceParts
from nemo_helix_server.auth import roles
from nemo_helix_server.auth.authentication import Principal
from nemo_helix_server.errors import ForbiddenError, UnauthenticatedError
from nemo_helix_server.jobs.model import Caller

_BEARER = HTTPBearer(
    auto_error=False,
    description="An access token of `nemo auth token create`; a service on loopback does not ask for one.",
)
_LONGEST = 256

PathName = Annotated[str, Path(min_length=1, max_length=_LONGEST)]
"""A name or id in a path."""


def parts(request: Request) -> ServiceParts:
    """The parts of the service that this request came to."""
    found = request.app.state.parts
    assert isinstance(found, ServiceParts)
    return found


async def _parts(request: Request) -> ServiceParts:
    """The same as a dependency: in the event loop, since a thread for it costs more than it does."""
    return parts(request)


async def identify(request: Request, needed: Access) -> None:
    """Find out who asks, unless nobody needs to know; raises `UnauthenticatedError`."""
    if needed.anonymous:
        return
    credentials = await _BEARER(request)
    if credentials is None and request.headers.get("authorization"):
        raise UnauthenticatedError("the header Authorization must be `Bearer` and an access token")
    known = parts(request).authenticator.principal
    if credentials is None:
        request.state.principal = known(None)
    else:  # a token is looked up in the store
        request.state.principal = await run_in_threadpool(known, credentials.credentials)


async def principal(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
) -> Principal:
    """Who asks, as `identify` found out before the body was read."""
    found = request.state.principal
    assert isinstance(found, Principal)
    return found


class Access(ABC):
    """Who may use a route: a dependency that gives the caller, and what the guard asks before it."""

    anonymous: ClassVar[bool] = False
    """Whether nobody needs to say who they are."""
    looks_up: ClassVar[bool] = False
    """Whether the checks ask the store, and so have to wait for it in a thread."""

    @abstractmethod
    def check(self, request: Request, who: Principal) -> None:
        """Raise `ForbiddenError` unless this principal may; the body was not read yet.

        Called in the event loop, unless `looks_up` says that it asks the store.
        """

    def check_body(self, request: Request, who: Principal, body: Any) -> None:  # noqa: B027 - most need no more
        """The same where it depends on the body; that is JSON, and otherwise what was sent."""

    def admit(self, request: Request) -> None:
        """Raise `ForbiddenError` unless who asks may."""
        self.check(request, request.state.principal)

    def admit_body(self, request: Request, body: Any) -> None:
        """Raise `ForbiddenError` unless who asks may do what the body says."""
        self.check_body(request, request.state.principal, body)

    async def __call__(self, who: Annotated[Principal, Depends(principal)]) -> Caller:
        """The caller, who was let through."""
        return who.caller


class Anybody(Access):
    """Everybody who reaches the service."""

    anonymous = True

    def check(self, request: Request, who: Principal) -> None:
        """See `Access`."""

    def admit(self, request: Request) -> None:
        """See `Access`."""

    def admit_body(self, request: Request, body: Any) -> None:
        """See `Access`."""

    async def __call__(self) -> Caller:  # type: ignore[override]
        """Nobody that is known."""
        return Caller(name="anybody", role=Role.READ)


@dataclass(frozen=True, slots=True)
class Needs(Access):
    """Everybody who has at least this role, in the workspace of the path."""

    role: Role

    def check(self, request: Request, who: Principal) -> None:
        """See `Access`."""
        if who.claims is not None:
            raise ForbiddenError(
                f"the token of the step '{who.claims.step}' may only read that step and write its own task"
            )
        roles.check_role(who.caller, self.role)
        workspace = request.path_params.get("workspace")
        if workspace is not None:
            roles.check_workspace(who.caller, workspace)


@dataclass(frozen=True, slots=True)
class NeedsOrStep(Access):
    """As `Needs`, and the step itself."""

    role: Role

    def check(self, request: Request, who: Principal) -> None:
        """See `Access`."""
        if who.claims is None:
            Needs(self.role).check(request, who)
            return
        path = request.path_params
        who.check_own(path["workspace"], path["job"], path.get("step"), path.get("task"))


@dataclass(frozen=True, slots=True)
class NeedsEverywhere(Access):
    """As `Needs`, for what concerns all workspaces."""

    role: Role

    def check(self, request: Request, who: Principal) -> None:  # noqa: ARG002 - as `Access` has it
        """See `Access`."""
        if who.claims is not None:
            raise ForbiddenError("the token of a step may only read that step and write its own task")
        roles.check_role(who.caller, self.role)
        roles.check_unconfined(who.caller)


Service = Annotated[ServiceParts, Depends(_parts)]

OPEN = [Depends(Anybody())]
"""For routes that need no token."""
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
