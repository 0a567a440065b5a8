"""What is asked of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


class ListPlace(NamedTuple):
    """A place in the order of a list: behind the job with this moment (microseconds) and id."""

    at: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStretch:
    """Jobs from a place in their order on, the newest first; what comes before them costs nothing."""

    workspace: str | None
    where: parse.Tree = parse.EVERYTHING
    by_change: bool = False
    """In the order of their last change, not of their creation."""
    behind: ListPlace | None = None
    backwards: bool = False
    """Those before the place instead, the nearest of them."""
    limit: int = 50


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
