"""Several jobs side by side: their curves on one chart each, and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from nemo_helix_plugin.job_words.curves import Curve, curves_of
from nemo_helix_server.api.parts import ServiceParts
from nemo_helix_server.auth import roles
from nemo_helix_server.pages import rows, spec_diff
from nemo_helix_server.pages.charts import Chart, chart_of_jobs
from nemo_helix_server.pages.guard import PageGuard, PageVisit
from nemo_helix_server.pages.versions import JOB_TOPIC, PageVersions
from nemo_pages.errors import ViewError
from nemo_pages.rendering import Rendering, is_partial
from nemo_pages.runs.rows import RunRow
from nemo_runs.clock import SECOND

MOST: Final = 8
"""Jobs on one page: as many lines are distinguishable."""
MOST_CHARTS: Final = 12
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJobs:
    """What the page shows."""

    rows: Sequence[RunRow]
    charts: Sequence[Chart]
    settings: Sequence[tuple[str, Sequence[str | None]]]
    """Keys whose values are not the same in all jobs, with the value of each job; `None`: it has none."""
    same: int
    """Keys that are the same in all of them."""


@dataclass(frozen=True, slots=True)
class JobComparison:
    """The endpoint; it is called in a thread."""

    parts: ServiceParts
    rendering: Rendering
    versions: PageVersions

    def routes(self, guard: PageGuard) -> list[BaseRoute]:
        """The page and, for scripts, its part."""
        return [guard.page("/jobs/compare", self.compare)]

    def compare(self, visit: PageVisit) -> Response:
        """Jobs named by ``job=<workspace>/<name>``, each of which the caller must be allowed to see."""
        named = list(dict.fromkeys(name for name in visit.request.query_params.getlist("job") if name))
        if not 2 <= len(named) <= MOST:
            raise ViewError(
                f"A comparison is of two to {MOST} different jobs; {len(named)} were chosen. "
                "Choose them in the list of runs."
            )
        jobs = [self._job(visit, name) for name in named]
        topics = [f"{JOB_TOPIC}{job['id']}" for job in jobs]
        known = self.versions.of(visit.caller, topics)  # before what they are versions of is read
        now = datetime.fromtimestamp(self.parts.jobs.clock.now() / SECOND, UTC)
        return self.rendering.page(
            visit.request,
            f"jobs/comparison_{'part' if is_partial(visit.request) else 'page'}.html",
            found=compared([self._job(visit, name) for name in named], now),
            topics=topics,
            versions=[known.get(topic, "") for topic in topics],
            named=named,
        )

    def _job(self, visit: PageVisit, named: str) -> Record:
        workspace, _, name = named.rpartition("/")
        roles.check_workspace(visit.caller, workspace)
        return self.parts.jobs.get(workspace, name)


def compared(jobs: Sequence[Record], now: datetime) -> ComparedJobs:
    """Put jobs side by side. Pure."""
    labels = _labels(jobs)
    curves: dict[str, dict[str, Curve]] = {}
    for label, job in zip(labels, jobs, strict=True):
        for curve in curves_of(job):
            curves.setdefault(curve.name, {})[label] = curve
    names = sorted(curves, key=lambda name: ("loss" not in name, -len(curves[name]), name))
    settings, same = spec_diff.differing(
        [{"spec": job["spec"], "platform_spec": job["platform_spec"]} for job in jobs]
    )
    return ComparedJobs(
        rows=[rows.row_of(job, (), now) for job in jobs],
        charts=[chart_of_jobs(name, curves[name]) for name in names[:MOST_CHARTS]],
        settings=settings,
        same=same,
    )


def _labels(jobs: Sequence[Record]) -> list[str]:
    """What each job is called: its name, with its workspace where two have the same."""
    names = [str(job["name"]) for job in jobs]
    if len(set(names)) == len(names):
        return names
    return [f"{job['workspace']}/{job['name']}" for job in jobs]
