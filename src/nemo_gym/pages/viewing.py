"""The pages of `gym view`: evaluations alone, read-only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp

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
    *,
    access: ViewAccess | None = None,
    root_path: str = "",
    ended: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """The application of `gym view`; ``ended``: whether its server stops. Without ``access`` all may look."""
    rendering = Rendering(program="gym view")

    def versions(topics: Sequence[str]) -> Mapping[str, str]:
        return {TOPIC: table.version} if TOPIC in topics else {}

    def guarded(app: ASGIApp) -> ASGIApp:
        if access is None:
            return app
        return KeyRequired(app, rendering, key=access.key, name=access.cookie, root_path=root_path)

    routes = [runs_route(table, rendering, empty=EMPTY, kinds=(RunKind.EVALUATION,))]
    return pages_application(
        routes,
        rendering,
        versions=versions,
        guard=guarded,
        ended=ended,
        root_path=root_path,
        hosts=access.hosts if access is not None else (),
    )
