"""Routes about the service itself, and those that concern a whole workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from nemo_helix_plugin import __version__
from nemo_helix_plugin.jobs import types
from nemo_helix_server.api.access import OPEN, OPERATES, READS, Operator, PathName, Service
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.problems import answers

router = make_router(tags=["service"])


class Health(BaseModel):
    """Whether the service works."""

    status: str
    """``ok``, or ``failing``."""
    version: str
    problems: list[str] = []


class Status(Health):
    """What runs here."""

    services: dict[str, str]
    """``ready`` or ``failing`` by name."""
    jobs: dict[str, int]
    """Number of jobs by status, of all workspaces."""
    watchers: int
    """How many streams are open."""


def _problems(service: Service) -> list[str]:
    return [*service.controller_problems(), *service.health.problems()]


@router.get("/health", response_model=Health, responses={503: {"model": Health}}, dependencies=OPEN)
def health(service: Service) -> Any:
    """Whether the service works, reading and writing: 200, or 503 with what does not. Needs no token."""
    problems = _problems(service)
    body = Health(status="failing" if problems else "ok", version=__version__, problems=problems)
    return JSONResponse(body.model_dump(), 503 if problems else 200)


@router.get("/status", response_model=Status, responses=answers(), dependencies=READS)
def status(service: Service) -> Any:
    """What runs here, and how many jobs are in which status."""
    problems = _problems(service)
    with service.jobs.store.read() as reader:
        counts: Mapping[str, int] = {str(name): number for name, number in reader.jobs.counts(None).items()}
    return Status(
        status="failing" if problems else "ok",
        version=__version__,
        problems=problems,
        services={"jobs": "failing" if problems else "ready"},
        jobs=dict(counts),
        watchers=service.broadcaster.watchers,
    )


@router.get(
    "/apis/jobs/v2/execution-profiles",
    response_model=list[types.ExecutionProfile],
    responses=answers(),
    dependencies=READS,
    tags=["jobs"],
)
def list_execution_profiles(service: Service) -> Any:
    """Where steps can run."""
    return service.profiles.all()


@router.post(
    "/apis/jobs/v2/execution-profiles/{provider}/{profile}/check",
    response_model=types.ProfileCheck,
    responses=answers(404),
    dependencies=OPERATES,
    tags=["jobs"],
)
def check_execution_profile(provider: PathName, profile: PathName, service: Service) -> Any:
    """Find out, without a job, what would keep steps of a profile from running; may take a minute."""
    return service.profile_checks.check(provider, profile)


@router.post(
    "/apis/jobs/v2/workspaces/{workspace}/pause-all",
    response_model=types.PauseAllResponse,
    responses=answers(404, 422),
    tags=["jobs"],
)
def pause_all(
    workspace: PathName,
    caller: Operator,
    service: Service,
    source: Annotated[str | None, Query(max_length=255)] = None,
    maintenance: Annotated[bool, Query(description="The service is about to stop.")] = False,
) -> Any:
    """Pause every job that can be paused, and say of each other one why not; `-` is all workspaces."""
    return service.jobs.pause_all(caller, workspace, source=source, maintenance=maintenance)
