"""The pages of `gym view`: evaluations alone, read-only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp

from nemo_gym.pages.evaluations.routes import TEMPLATES, evaluation_routes, evaluation_versions
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_pages.access import KeyRequired
from nemo_pages.application import pages_application
from nemo_pages.rendering import Rendering
from nemo_pages.runs.routes import TOPIC, runs_route
from nemo_pages.runs.rows import RunKind
from nemo_pages.runs.table import RunTable

EMPTY: Final = {
    "text": "Evaluations that you submit from this machine appear here by themselves.",
    "command": "gym eval submit -c examples/quickstart.yaml",
}


@dataclass(frozen=True, slots=True)
class ViewAccess:
    """Who may look."""

    key: str
    """What the address has that lets a browser in."""
    cookie: str
    """The name of the cookie that keeps it."""
    hosts: Collection[str] = ()
    """The only names that are answered for, if any."""


def view_application(
    table: RunTable,
    index: EvaluationIndex | None = None,
    *,
    access: ViewAccess | None = None,
    root_path: str = "",
    ended: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """The application of `gym view`; ``ended``: whether its server stops. Without ``access`` all may look.

    Without an index it has the list of runs alone.
    """
    rendering = Rendering([TEMPLATES], program="gym view")

    def versions(topics: Sequence[str]) -> Mapping[str, str]:
        runs: dict[str, str] = {TOPIC: table.version} if TOPIC in topics else {}
        return runs if index is None else {**runs, **evaluation_versions(index, topics)}

    def guarded(app: ASGIApp) -> ASGIApp:
        if access is None:
            return app
        return KeyRequired(app, rendering, key=access.key, name=access.cookie, root_path=root_path)

    runs = runs_route(table, rendering, empty=EMPTY, kinds=(RunKind.EVALUATION,))
    routes = [runs, *(evaluation_routes(index, rendering) if index is not None else ())]
    return pages_application(
        routes,
        rendering,
        versions=versions,
        guard=guarded,
        ended=ended,
        root_path=root_path,
        hosts=access.hosts if access is not None else (),
    )
