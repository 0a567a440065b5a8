"""The values of the page on which one rollout is read."""

from __future__ import annotations

from typing import Any, Final

from nemo_gym.pages.evaluations.rollouts_view import RolloutsView, rollouts_path
from nemo_gym.pages.evaluations.state_groups import OF_OUTCOME
from nemo_gym.pages.index import rollout_query as queries
from nemo_gym.pages.index.known_runs import KnownBenchmark, KnownRun
from nemo_gym.pages.index.output_index import OutputIndex, RolloutGoneError
from nemo_gym.pages.index.rollout_query import RolloutQuery
from nemo_gym.pages.index.row_scan import HELD, Place
from nemo_gym.rollouts.reading.recorded import RecordedRollout, as_text
from nemo_gym.rollouts.reading.rollout_text import metrics_text
from nemo_gym.rollouts.reading.trajectory import THOUGHTS
from nemo_pages.errors import NoSuchPageError

SHOWN: Final = 200_000
"""Characters of one text that are shown; `gym job show` shows all."""
_WRONG: Final = RolloutQuery(kinds=frozenset({"wrong", "failed"}))


def reader_values(
    run: KnownRun, benchmark: KnownBenchmark, table: OutputIndex, view: RolloutsView, place: Place
) -> dict[str, Any]:
    """Everything that the template needs. Raises `NoSuchPageError` where nothing is recorded."""
    entry = table.ask(queries.entry_at, place)
    if entry is None:
        raise NoSuchPageError(
            f"Nothing is recorded of task {place[0]}, repeat {place[1]}"
            f"{'' if table.state().whole else ' so far: the files are still being read'}."
        )
    before, behind = table.ask(queries.neighbours, view.query, place)
    _, next_wrong = table.ask(queries.neighbours, _WRONG, place)
    rollout: RecordedRollout | None = None
    gone = False
    if entry.length <= HELD:
        try:
            rollout = table.rollout(entry)
        except RolloutGoneError:
            gone = True
    path = rollouts_path(run, benchmark)
    return {
        "run": run,
        "benchmark": benchmark,
        "entry": entry,
        "rollout": rollout,
        "gone": gone,
        "group": OF_OUTCOME[entry.outcome],
        "view": view,
        "view_query": view.address(page=view.query.page),
        "path": path,
        "before": _path(path, before),
        "behind": _path(path, behind),
        "next_wrong": _path(path, next_wrong),
        "repeats": _repeats(table, place),
        "outcome_group": OF_OUTCOME,
        "verdict": _verdict(rollout) if rollout else [],
        "row": _row(rollout) if rollout else [],
        "shown": SHOWN,
        "thoughts_kind": f": {THOUGHTS}",
        "reading": table.state(),
    }


def _path(path: str, place: Place | None) -> str:
    return "" if place is None else f"{path}/{place[0]}/{place[1]}"


def _repeats(table: OutputIndex, place: Place) -> list[queries.RolloutEntry]:
    """The rollouts of the same task."""
    return table.ask(queries.page_of, RolloutQuery(task=place[0])).entries


def _row(rollout: RecordedRollout) -> list[tuple[str, str]]:
    """The fields of the row of the data set, without the prompt, which is shown as it was sent."""
    return [
        (name, as_text(value) or "null")
        for name, value in rollout.row.items()
        if name != "responses_create_params"
    ]


def _verdict(rollout: RecordedRollout) -> list[tuple[str, str | None]]:
    """Metrics and further fields of the verifier, each with its name."""
    metrics = [("metrics", metrics_text(rollout.metrics))] if rollout.metrics else []
    return [*metrics, *((name, as_text(value)) for name, value in rollout.verdict.items())]
