"""The list of jobs: which part of it an address shows, read without what comes before it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from nemo_helix_plugin.jobs.names import ALL
from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import InvalidError
from nemo_helix_server.jobs.filtering import parse
from nemo_helix_server.jobs.filtering.parse import AllOf, Compare, Operator, Tree
from nemo_helix_server.pages import rows
from nemo_helix_server.service.jobs import JobsService
from nemo_helix_server.store.queries import JobStretch, ListPlace
from nemo_pages.links import Parameter
from nemo_pages.runs.rows import RunRow, StateGroup

SIZE = 50
_LONGEST_SEARCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsView:
    """A view of the list, as its address says it."""

    workspace: str = ALL
    groups: tuple[StateGroup, ...] = ()
    text: str = ""
    """What a name must contain."""
    filter: str = ""
    """As `nemo jobs list --filter` takes it."""
    by_change: bool = False
    behind: ListPlace | None = None
    backwards: bool = False

    @classmethod
    def read(cls, query: Mapping[str, str], confined_to: str | None) -> JobsView:
        """The view of an address; raises `InvalidError`. A confined caller sees one workspace."""
        groups = [group for group in query.get("state", "").split(",") if group]
        unknown = sorted(set(groups) - set(StateGroup))
        if unknown:
            raise InvalidError(f"state: '{unknown[0][:60]}' is not one of {', '.join(StateGroup)}")
        order = query.get("sort", "created")
        if order not in {"created", "changed"}:
            raise InvalidError(f"sort: '{order[:60]}' is neither created nor changed")
        place = query.get("after") or query.get("before")
        return cls(
            workspace=query.get("workspace") or confined_to or ALL,
            groups=tuple(StateGroup(group) for group in groups),
            text=query.get("q", "").strip()[:_LONGEST_SEARCH],
            filter=query.get("filter", "").strip(),
            by_change=order == "changed",
            behind=_place(place) if place else None,
            backwards=bool(query.get("before")) and not query.get("after"),
        )

    def query(self, **changes: Any) -> dict[str, Parameter]:
        """The query of this view with changes; every change but that of the place leads to the first page."""
        view = replace(self, **{"behind": None, "backwards": False, **changes})
        place = _text(view.behind) if view.behind else None
        return {
            "workspace": view.workspace if view.workspace != ALL else None,
            "state": ",".join(view.groups),
            "q": view.text,
            "filter": view.filter,
            "sort": "changed" if view.by_change else None,
            "after": None if view.backwards else place,
            "before": place if view.backwards else None,
        }

    def tree(self) -> Tree:
        """What must hold of a job."""
        parts: list[Tree] = []
        if self.groups:
            wanted = tuple(status.value for status in HelixJobStatus if rows.group_of(status) in self.groups)
            parts.append(Compare("status", Operator.IN, wanted))
        if self.text:
            parts.append(Compare("name", Operator.CONTAINS, self.text))
        if self.filter:
            parts.append(parse.parse([("filter", self.filter)]).tree)
        return AllOf(tuple(parts))

    @property
    def is_filtered(self) -> bool:
        """Whether jobs may be left out."""
        return bool(self.groups or self.text or self.filter)


@dataclass(frozen=True, slots=True)
class JobsList:
    """What the page of a view shows."""

    rows: Sequence[RunRow]
    counts: Mapping[StateGroup, int]
    """All jobs of the workspace by kind of status, whatever the filter."""
    following: Mapping[str, Parameter] | None
    preceding: Mapping[str, Parameter] | None


def jobs_list(service: JobsService, view: JobsView, now: datetime) -> JobsList:
    """Read what a view shows."""
    query = JobStretch(
        workspace=None if view.workspace == ALL else view.workspace,
        where=view.tree(),
        by_change=view.by_change,
        behind=view.behind,
        backwards=view.backwards,
        limit=SIZE + 1,
    )
    found = service.stretch(query, rows.CURVES, rows.POINTS)
    more = len(found.jobs) > SIZE
    # the one too many is the farthest: the first of those before a place, the last of those behind it
    kept = slice(1, None) if more and view.backwards else slice(0, SIZE)
    places = found.places[kept]
    shown = [
        rows.row_of(job, curve, now) for job, curve in zip(found.jobs[kept], found.curves[kept], strict=True)
    ]
    has_following = bool(places) and (more or view.backwards)
    has_preceding = bool(places) and (more if view.backwards else view.behind is not None)
    counts: dict[StateGroup, int] = {}
    for status, number in service.counts(view.workspace).items():
        group = rows.group_of(status)
        counts[group] = counts.get(group, 0) + number
    return JobsList(
        rows=shown,
        counts=counts,
        following=view.query(behind=places[-1]) if has_following else None,
        preceding=view.query(behind=places[0], backwards=True) if has_preceding else None,
    )


def _text(place: ListPlace) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _place(text: str) -> ListPlace:
    try:
        at, job_id = json.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
        if type(at) is int and abs(at) < 2**62 and isinstance(job_id, str) and "\0" not in job_id:
            return ListPlace(at, job_id.encode().decode()[:64])
    except (ValueError, TypeError):
        pass
    raise InvalidError("after, before: this is not a place in the list; begin at its first page")
