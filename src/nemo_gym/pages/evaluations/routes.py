"""The addresses of the pages of evaluations; mounted by `gym view` and by the Jobs service alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nemo_gym.pages.evaluations.comparison_view import comparison_topic, comparison_values
from nemo_gym.pages.evaluations.evaluation_view import evaluation_values, topic_of
from nemo_gym.pages.evaluations.log_view import LINES, log_values
from nemo_gym.pages.evaluations.reader_view import reader_values
from nemo_gym.pages.evaluations.rollouts_view import RolloutsView, rollouts_values, whole
from nemo_gym.pages.index.known_runs import KnownBenchmark, KnownRun
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_gym.pages.index.output_index import OutputIndex
from nemo_pages.errors import NoSuchPageError, ViewError, WayBack
from nemo_pages.rendering import Rendering, TemplateFolder, is_partial

TEMPLATES: Final = TemplateFolder("nemo_gym.pages")
MOST_COMPARED: Final = 12
"""Runs that can be compared on one page."""

Values = Callable[[Request], dict[str, Any]]


def evaluation_routes(
    index: EvaluationIndex,
    rendering: Rendering,
    visible: Callable[[Request, KnownRun], bool] = lambda *_: True,
) -> list[Route]:
    """All pages of evaluations but the list of runs. ``rendering`` knows the folder `TEMPLATES`.

    ``visible``: whether the sender of a request may see a run; for others there is no such run.
    """

    def route(path: str, template: str, values: Values) -> Route:
        async def page(request: Request) -> Response:
            try:
                found = await asyncio.to_thread(values, request)
            except NoSuchPageError as error:
                run = index.run(request.path_params.get("run", ""))
                if run is not None and visible(request, run):
                    error.back = WayBack(f"/evaluations/{run.run_id}", "Back to its evaluation")
                raise
            part = "part" if is_partial(request) else "page"
            return rendering.page(request, f"evaluations/{template}_{part}.html", **found)

        return Route(path, page, methods=["GET"], name=template)

    pages = _Pages(index, visible)
    benchmark = "/evaluations/{run}/{benchmark}"
    return [
        route("/evaluations/{run}", "evaluation", pages.evaluation),
        route(f"{benchmark}/rollouts", "rollouts", pages.rollouts),
        route(f"{benchmark}/rollouts/{{task:int}}/{{repeat:int}}", "rollout", pages.rollout),
        route(f"{benchmark}/log", "log", pages.log),
        route("/compare", "comparison", pages.comparison),
    ]


def evaluation_versions(
    index: EvaluationIndex, topics: Sequence[str], visible: Callable[[KnownRun], bool] = lambda _: True
) -> Mapping[str, str]:
    """The versions of those topics that are runs which are visible, or comparisons of runs."""
    runs = [run for run in index.runs() if visible(run)]
    found = {topic_of(run.run_id): index.version(run) for run in runs if topic_of(run.run_id) in topics}
    return found | {
        topic: f"{index.answers.version}" for topic in topics if topic.startswith(comparison_topic([]))
    }


class _Pages:
    """The values of each page, from a request."""

    def __init__(self, index: EvaluationIndex, visible: Callable[[Request, KnownRun], bool]) -> None:
        self._index = index
        self._visible = visible

    def evaluation(self, request: Request) -> dict[str, Any]:
        run = self._run(request, request.path_params["run"])
        live = self._live(run)
        page = max(1, whole(request.query_params, "tasks") or 1)
        return {**evaluation_values(self._index, run, task_page=page), **live}

    def rollouts(self, request: Request) -> dict[str, Any]:
        run, benchmark, table = self._table(request)
        live = self._live(run)
        return {**rollouts_values(run, benchmark, table, RolloutsView.read(request.query_params)), **live}

    def rollout(self, request: Request) -> dict[str, Any]:
        run, benchmark, table = self._table(request)
        place = request.path_params["task"], request.path_params["repeat"]
        return reader_values(run, benchmark, table, RolloutsView.read(request.query_params), place)

    def log(self, request: Request) -> dict[str, Any]:
        run, benchmark = self._benchmark(request)
        lines = whole(request.query_params, "lines") or LINES[0]
        if lines not in LINES:
            raise ViewError(f"lines: {lines} is not one of {', '.join(map(str, LINES))}.")
        live = self._live(run)
        return {**log_values(run, benchmark, request.query_params.get("source", ""), lines), **live}

    def comparison(self, request: Request) -> dict[str, Any]:
        named = list(dict.fromkeys(name for name in request.query_params.getlist("runs") if name))
        if not 2 <= len(named) <= MOST_COMPARED:
            raise ViewError(
                f"A comparison is of two to {MOST_COMPARED} different runs; {len(named)} were chosen. "
                "Choose them in the list of runs."
            )
        return comparison_values(self._index, [self._run(request, name) for name in named])

    def _live(self, run: KnownRun) -> dict[str, str]:
        """What events say of a page: its topic, and the version before anything of it was read."""
        return {"topic": topic_of(run.run_id), "version": self._index.version(run)}

    def _run(self, request: Request, name: str) -> KnownRun:
        found = self._index.run(name)
        if found is not None and self._visible(request, found):
            return found
        if not self._index.seen_at:
            raise NoSuchPageError("The runs are being read for the first time; try again in a moment.")
        raise NoSuchPageError(
            f"There is no evaluation '{name[:200]}' here; the list of runs shows which are."
        )

    def _benchmark(self, request: Request) -> tuple[KnownRun, KnownBenchmark]:
        run, name = self._run(request, request.path_params["run"]), request.path_params["benchmark"]
        benchmark = run.benchmark(name)
        if benchmark is None:
            names = ", ".join(each.name for each in run.benchmarks) or "none"
            raise NoSuchPageError(f"{run.title} has no benchmark '{name[:200]}'; it has {names}.")
        return run, benchmark

    def _table(self, request: Request) -> tuple[KnownRun, KnownBenchmark, OutputIndex]:
        run, benchmark = self._benchmark(request)
        table = self._index.rollouts(run, benchmark)
        if table is None:
            raise NoSuchPageError(_nothing_here(run, benchmark))
        return run, benchmark, table


def _nothing_here(run: KnownRun, benchmark: KnownBenchmark) -> str:
    if run.folder is None and run.record is not None:
        return (
            f"The rollouts of {benchmark.name} are {run.where}; "
            f"`gym job fetch {run.run_id}` brings them to this machine."
        )
    return f"No rollout of {benchmark.name} is recorded yet."
