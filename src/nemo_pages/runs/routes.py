"""The page Runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nemo_pages.errors import ViewError
from nemo_pages.links import query_text
from nemo_pages.rendering import Rendering, frame_of, is_partial
from nemo_pages.runs.rows import RunKind, StateGroup
from nemo_pages.runs.table import RunTable
from nemo_pages.runs.view import COLUMNS, SIZES, SORTS, VALUE, RunsView

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
    values = _shown(table, kinds, empty)

    async def runs(request: Request) -> Response:
        view = RunsView.read(request.query_params)
        found = await asyncio.to_thread(values, view)
        template = "runs/list.html" if is_partial(request) else "runs/page.html"
        answer = rendering.page(request, template, **found)
        if request.headers.get("hx-trigger") == FORM:
            header = "hx-replace-url" if _types_on(request, view) else "hx-push-url"
            answer.headers[header] = frame_of(request).links.url("/", view.query())
        return answer

    return Route("/", runs, methods=["GET"], name="runs")


def _types_on(request: Request, view: RunsView) -> bool:
    """Whether only more was typed of words for which the page already has an address of its own."""
    try:
        before = RunsView.read(QueryParams(urlsplit(request.headers.get("hx-current-url", "")).query))
    except (ViewError, ValueError):
        return False
    return bool(before.text) and before.query(text=view.text) == view.query()


def _shown(
    table: RunTable, kinds: tuple[RunKind, ...], empty: Mapping[str, str]
) -> Callable[[RunsView], dict[str, Any]]:
    def values(view: RunsView) -> dict[str, Any]:
        version = table.version  # before the rows: what changes meanwhile is asked for again
        answer = table.answer(view)
        pages = max(1, -(-answer.total // view.size))
        return {
            "view": view,
            "answer": answer,
            "pages": pages,
            "first": (view.page - 1) * view.size + 1,
            "columns": [(name, COLUMNS.get(name, name.removeprefix(VALUE))) for name in view.columns],
            "all_columns": list(COLUMNS.items()),
            "value_names": table.value_names(),
            "tags": table.tags(),
            "sorts": SORTS,
            "sizes": SIZES,
            "groups": list(StateGroup),
            "kinds": kinds if len(kinds) > 1 else (),
            "value_prefix": VALUE,
            "empty": empty,
            "view_query": query_text(view.query(page=view.page)),
            "topic": TOPIC,
            "version": version,
        }

    return values
