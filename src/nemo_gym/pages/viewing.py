"""The pages of `gym view`: evaluations alone, read-only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from starlette.types import ASGIApp

from nemo_pages.application import pages_application
from nemo_pages.rendering import Rendering
from nemo_pages.runs.routes import TOPIC, runs_route
from nemo_pages.runs.rows import RunKind
from nemo_pages.runs.table import RunTable

EMPTY: Final = {
    "text": "Evaluations that you submit from this machine appear here by themselves.",
    "command": "gym eval submit -c examples/quickstart.yaml",
}


def view_application(table: RunTable, *, root_path: str = "", hosts: Collection[str] = ()) -> ASGIApp:
    """The application of `gym view`; ``hosts``: the only names it answers for, if any."""
    rendering = Rendering(program="gym view")

    def versions(topics: Sequence[str]) -> Mapping[str, str]:
        return {TOPIC: table.version} if TOPIC in topics else {}

    routes = [runs_route(table, rendering, empty=EMPTY, kinds=(RunKind.EVALUATION,))]
    return pages_application(routes, rendering, versions=versions, root_path=root_path, hosts=hosts)
