"""What is asked of a list."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.filtering import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """A page of jobs; `workspace` None means all of them."""

    workspace: str | None
    where: parse.Tree = parse.EVERYTHING
    sort: str = "-created_at"
    page: int = 1
    page_size: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQuery:
    """A page of steps over jobs, oldest first; only what is given restricts."""

    workspace: str | None = None
    job_id: str | None = None
    statuses: frozenset[HelixJobStatus] | None = None
    source: str | None = None
    current_only: bool = True
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionQuery:
    """Transitions after a sequence number, in order."""

    after: int = 0
    workspace: str | None = None
    job_id: str | None = None
    limit: int = 1000
