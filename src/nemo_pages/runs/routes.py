"""The page Runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nemo_pages.errors import ViewError
from nemo_pages.links import query_text
from nemo_pages.rendering import Rendering, frame_of, is_partial
from nemo_pages.runs.rows import RunKind, RunRow, StateGroup
from nemo_pages.runs.table import RunTable
from nemo_pages.runs.view import COLUMNS, SIZES, SORTS, VALUE, RunsView
from nemo_pages.runs.visibility import EVERYTHING, RunVisibility

FORM = "view"
"""The id of the form that makes views; scripts name it in what they ask for."""
TOPIC = "runs"
"""The topic of events that says that a row changed."""


def runs_route(
    table: RunTable,
    rendering: Rendering,
    *,
    empty: Mapping[str, str],
    kinds: tuple[RunKind, ...] = tuple(RunKind),
) -> Route:
    """The page ``/``. ``empty``: what it says where there are no runs at all, by ``text`` and ``command``."""
    page = RunsPage(table, rendering, empty, kinds)

    async def runs(request: Request) -> Response:
        return await asyncio.to_thread(page.answer, request)

    return Route("/", runs, methods=["GET"], name="runs")


@dataclass(frozen=True, slots=True)
class RunsPage:
    """The list of runs, as each person sees it."""

    table: RunTable
    rendering: Rendering
    empty: Mapping[str, str]
    kinds: tuple[RunKind, ...] = tuple(RunKind)
    styles: tuple[str, ...] = ()
    """Further style sheets."""
    completed: Callable[[Sequence[RunRow]], Sequence[RunRow]] = tuple
    """The rows of a page with what is looked up for these alone."""

    def answer(self, request: Request, visibility: RunVisibility = EVERYTHING, **values: Any) -> Response:
        """The page, or for a script the list alone; raises `ViewError`."""
        view = RunsView.read(request.query_params)
        # before the rows: what changes meanwhile is asked for again
        version = self.table.version_for(visibility)
        template = "runs/list.html" if is_partial(request) else "runs/page.html"
        found = self._values(view, visibility)
        answer = self.rendering.page(request, template, version=version, **found, **values)
        if request.headers.get("hx-trigger") == FORM:
            header = "hx-replace-url" if _types_on(request, view) else "hx-push-url"
            answer.headers[header] = frame_of(request).links.url("/", view.query())
        return answer

    def _values(self, view: RunsView, visibility: RunVisibility) -> dict[str, Any]:
        answer = self.table.answer(view, visibility)
        return {
            "view": view,
            "answer": replace(answer, rows=tuple(self.completed(answer.rows))),
            "pages": max(1, -(-answer.total // view.size)),
            "first": (view.page - 1) * view.size + 1,
            "columns": [(name, COLUMNS.get(name, name.removeprefix(VALUE))) for name in view.columns],
            "all_columns": list(COLUMNS.items()),
            "value_names": _with_chosen(self.table.value_names(visibility), view),
            "tags": self.table.tags(visibility),
            "sorts": SORTS,
            "sizes": SIZES,
            "groups": list(StateGroup),
            "kinds": self.kinds if len(self.kinds) > 1 else (),
            "value_prefix": VALUE,
            "empty": self.empty,
            "view_query": query_text(view.query(page=view.page)),
            "topic": TOPIC,
            "styles": self.styles,
        }


def _with_chosen(names: list[str], view: RunsView) -> list[str]:
    """Names of values, those of the view among them however many there are."""
    chosen = [name.removeprefix(VALUE) for name in view.columns if name.startswith(VALUE)]
    return [*names, *(name for name in chosen if name not in names)]


def _types_on(request: Request, view: RunsView) -> bool:
    """Whether only more was typed of words for which the page already has an address of its own."""
    try:
        before = RunsView.read(QueryParams(urlsplit(request.headers.get("hx-current-url", "")).query))
    except (ViewError, ValueError):
        return False
    return bool(before.text) and before.query(text=view.text) == view.query()
