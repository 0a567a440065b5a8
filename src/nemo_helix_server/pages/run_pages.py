"""The page Runs of the service: evaluations and jobs in one list, and the pages of evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from nemo_gym.pages.evaluations.routes import evaluation_routes
from nemo_helix_server.api.parts import ServiceParts
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.jobs.ports import StorageLimits
from nemo_helix_server.pages import rows
from nemo_helix_server.pages.evaluations import ServiceEvaluations, visibility_of
from nemo_helix_server.pages.guard import AsyncEndpoint, PageGuard, PageVisit
from nemo_helix_server.pages.job_observer import JobObserver
from nemo_helix_server.settings import PagesSettings
from nemo_helix_server.store.store import JobStore
from nemo_pages.errors import ViewError
from nemo_pages.rendering import Rendering, frame_of
from nemo_pages.runs.routes import TOPIC, RunsPage
from nemo_pages.runs.rows import RunKind, RunRow
from nemo_pages.runs.table import RunTable
from nemo_runs.clock import Clock

EMPTY: Final = {
    "text": "Jobs, and evaluations of the directories that the settings name, appear here by themselves.",
    "command": "nemo customization --help",
}
COMPARE: Final = "/compare"


class RunObservers:
    """What reads jobs and evaluations behind the pages, into one table."""

    def __init__(self, store: JobStore, limits: StorageLimits, clock: Clock, given: PagesSettings) -> None:
        self.table = RunTable()
        self.jobs = JobObserver(store, limits, clock, self.table)
        self.evaluations = ServiceEvaluations(given, self.table, clock)

    def wanted(self) -> None:
        """Somebody looks at the list or at an evaluation."""
        self.evaluations.wanted()
        self.jobs.wanted()

    def versions(self, caller: Caller, topics: Sequence[str]) -> Mapping[str, str]:
        """The versions of those topics that are the list or evaluations, of what a caller may see."""
        found = self.evaluations.versions(caller, topics)
        if TOPIC not in topics:
            return found
        self.wanted()
        return {**found, TOPIC: self.table.version_for(visibility_of(caller))}

    def close(self) -> None:
        """End the reading."""
        self.evaluations.close()
        self.jobs.close()


@dataclass(frozen=True, slots=True)
class RunPages:
    """Endpoints of the list and of evaluations."""

    parts: ServiceParts
    rendering: Rendering
    observers: RunObservers

    def routes(self, guard: PageGuard) -> list[BaseRoute]:
        """All of them."""
        kinds = tuple(RunKind) if self.observers.evaluations.is_shown else (RunKind.JOB,)
        page = RunsPage(
            self.observers.table,
            self.rendering,
            EMPTY,
            kinds,
            styles=("jobs.css",),
            completed=self._completed,
        )

        def runs(visit: PageVisit) -> Response:
            self.observers.wanted()
            return page.answer(visit.request, visibility_of(visit.caller))

        evaluations = self.observers.evaluations
        found = evaluation_routes(evaluations.index, self.rendering, evaluations.is_visible)
        return [
            guard.page("/", runs),
            *(guard.stream(route.path, self._of_evaluations(route.path, route.endpoint)) for route in found),
        ]

    def _of_evaluations(self, path: str, endpoint: Any) -> AsyncEndpoint:
        async def answered(visit: PageVisit) -> Response:
            if path == COMPARE and (there := self._comparison_of_jobs(visit)) is not None:
                return there
            self.observers.evaluations.wanted()
            answer: Response = await endpoint(visit.request)
            return answer

        return answered

    def _comparison_of_jobs(self, visit: PageVisit) -> Response | None:
        """The way to the page on which jobs are compared, where the chosen runs are jobs."""
        named = visit.request.query_params.getlist("runs")
        jobs = [name for name in named if "/" in name]
        if not jobs:
            return None
        if len(jobs) < len(named):
            raise ViewError("Evaluations are compared with evaluations, and jobs with jobs; choose one kind.")
        links = frame_of(visit.request).links
        return RedirectResponse(links.url("/jobs/compare", {"job": jobs}))

    def _completed(self, found: Sequence[RunRow]) -> list[RunRow]:
        """Rows of jobs with the newest points of their curves."""
        wanted = {
            row.key: (row.workspace, row.name)
            for row in found
            if row.kind is RunKind.JOB and row.measure is not None
        }
        if not wanted:
            return list(found)
        curves = self.parts.jobs.curves(wanted, rows.CURVES, rows.POINTS)
        return [replace(row, curve=tuple(curves.get(row.key, ()))) for row in found]
