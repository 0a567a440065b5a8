"""The application of pages: its routes, each guarded, and which paths are its own beside the API's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.pages.evaluations.routes import TEMPLATES
from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.api.parts import ServiceParts
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.pages import rows
from nemo_helix_server.pages.entering import PageEntrance, address
from nemo_helix_server.pages.guard import PageGuard, PageVisit
from nemo_helix_server.pages.job_comparison import JobComparison
from nemo_helix_server.pages.job_routes import JobPages
from nemo_helix_server.pages.run_pages import RunObservers, RunPages
from nemo_helix_server.pages.sessions import PageSessions
from nemo_helix_server.pages.versions import PageVersions
from nemo_helix_server.settings import PagesSettings
from nemo_pages.application import error_handler, error_page
from nemo_pages.errors import WayBack
from nemo_pages.events import event_routes
from nemo_pages.rendering import NavigationEntry, Rendering, TemplateFolder
from nemo_pages.security import SecurityHeaders
from nemo_pages.static_files import static_route

PATHS = ("/", "/jobs", "/evaluations", "/compare", "/pages")
"""What belongs to pages, with everything below it; below ``/`` nothing does."""
_NAVIGATION = (NavigationEntry("Runs", "/"), NavigationEntry("Jobs", "/jobs"))


@dataclass(frozen=True, slots=True)
class BesideApi:
    """The ASGI application of pages and API: each path belongs to one of them."""

    pages: ASGIApp
    api: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        own = scope["type"] == "http" and is_page(_own_path(scope))
        await (self.pages if own else self.api)(scope, receive, send)


@dataclass(frozen=True, slots=True)
class ServicePages:
    """The pages of a service."""

    application: ASGIApp
    observers: RunObservers

    def close(self) -> None:
        """End what reads behind them."""
        self.observers.close()


def make_pages(
    parts: ServiceParts, sessions: PageSessions, given: PagesSettings, base_url: str
) -> ServicePages:
    """Put the pages together; ``base_url`` is where the service listens."""
    root_path = given.root_path
    rendering = Rendering(
        [TEMPLATES, TemplateFolder("nemo_helix_server.pages")],
        program="nemo services",
        navigation=_NAVIGATION,
    )
    guard = PageGuard(sessions, functools.partial(_error_page, rendering), error_handler(rendering))
    entrance = PageEntrance(
        sessions,
        parts.authenticator,
        functools.partial(address, base_url, given),
        root_path,
        functools.partial(_sign_in, rendering),
    )
    jobs = parts.jobs
    observers = RunObservers(jobs.store, jobs.limits, jobs.clock, given)
    versions = PageVersions(jobs.store, parts.logs, observers)
    routes: list[BaseRoute] = [
        *RunPages(parts, rendering, observers).routes(guard),
        static_route(),
        *entrance.routes(guard),
        *_live(guard, versions, lambda: parts.broadcaster.closed),
        *JobPages(parts, rendering, root_path, versions).routes(guard),
        *JobComparison(parts, rendering, versions).routes(guard),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    return ServicePages(SecurityHeaders(app), observers)


def is_page(path: str) -> bool:
    """Whether a path, without the root path, belongs to pages."""
    return path == "/" or any(path == own or path.startswith(f"{own}/") for own in PATHS if own != "/")


def _own_path(scope: Scope) -> str:
    """The path of a request without the root path."""
    root, path = str(scope.get("root_path", "")), str(scope["path"])
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _live(guard: PageGuard, versions: PageVersions, ended: Callable[[], bool]) -> list[BaseRoute]:
    """The streams of pages, which know only what their caller may see."""

    def of(caller: Caller, topics: Sequence[str]) -> Mapping[str, str]:
        return versions.of(caller, topics)

    def guarded(path: str, number: int) -> BaseRoute:
        async def answered(visit: PageVisit) -> Response:
            routes = event_routes(functools.partial(of, visit.caller), ended=ended)
            answer: Response = await routes[number].endpoint(visit.request)
            return answer

        return guard.stream(path, answered, Role.READ)

    return [guarded(route.path, number) for number, route in enumerate(event_routes(lambda _: {}))]


def _error_page(
    rendering: Rendering, request: Request, status: int, detail: str, caller: Caller | None
) -> Response:
    if status == 401 and caller is None:
        return _sign_in(rendering, request, status, detail)
    return error_page(
        rendering, request, status, f"{detail[:1].upper()}{detail[1:]}.", _way_back(request, status, caller)
    )


def _way_back(request: Request, status: int, caller: Caller | None) -> WayBack | None:
    """To the page of the job whose button was refused, where the caller may see it."""
    workspace, name = (request.path_params.get(key) for key in ("workspace", "job"))
    if caller is None or not workspace or caller.workspace not in {None, workspace}:
        return None
    if status == HTTPStatus.NOT_FOUND:
        return WayBack("/jobs", "All jobs")
    return WayBack(rows.path_of(workspace, name), f"Back to job {name}") if name else None


def _sign_in(rendering: Rendering, request: Request, status: int, said: str) -> Response:
    sentence = f"{said[:1].upper()}{said[1:]}." if said else ""
    return rendering.page(request, "enter.html", status=status, said=sentence)
