"""The list of a benchmark's rollouts: what an address asks for, and the values of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from starlette.datastructures import QueryParams

from nemo_gym.pages.evaluations.state_groups import OF_OUTCOME
from nemo_gym.pages.index import rollout_query as queries
from nemo_gym.pages.index.known_runs import KnownBenchmark, KnownRun
from nemo_gym.pages.index.output_index import OutputIndex
from nemo_gym.pages.index.rollout_query import Kind, RolloutQuery
from nemo_pages.errors import ViewError
from nemo_pages.links import Parameter

KINDS: Final[Mapping[Kind, str]] = {"failed": "Failed", "wrong": "Wrong", "truncated": "Truncated"}
"""The filters, and what each is called."""
_GROUP: Final = "="
"""Between the field and the value of a group in an address."""


@dataclass(frozen=True, slots=True)
class RolloutsView:
    """What an address asks for; it has only what differs from the usual view."""

    query: RolloutQuery

    @classmethod
    def read(cls, query: QueryParams) -> Self:
        """The view of an address. Raises `ViewError` where a part of it means nothing."""
        order = query.get("sort") or "task"
        if order not in ("task", "slow"):
            raise ViewError(f"sort: '{order[:60]}' is not one of task, slow.")
        kinds = [kind for kind in query.getlist("show") if kind]
        for kind in kinds:
            if kind not in KINDS:
                raise ViewError(f"show: '{kind[:60]}' is not one of {', '.join(KINDS)}.")
        field, between, value = query.get("group", "").partition(_GROUP)
        return cls(
            RolloutQuery(
                kinds=frozenset(kinds),  # type: ignore[arg-type]  # each is a `Kind`
                task=whole(query, "task"),
                group=(field, value) if between else None,
                order=order,  # type: ignore[arg-type]  # one of the two
                page=max(1, whole(query, "page") or 1),
            )
        )

    def address(self, **changes: Any) -> dict[str, Parameter]:
        """The query of this view with changes; every change but that of the page leads to the first page."""
        asked = replace(self.query, **{"page": 1, **changes})
        return {
            "show": [kind for kind in KINDS if kind in asked.kinds],
            "task": asked.task,
            "group": _GROUP.join(asked.group) if asked.group is not None else None,
            "sort": asked.order if asked.order != "task" else None,
            "page": asked.page if asked.page > 1 else None,
        }

    def paged(self, page: int) -> dict[str, Parameter]:
        """The query of another page of this view."""
        return self.address(page=page)

    def toggled(self, kind: Kind) -> dict[str, Parameter]:
        """The query with one filter more, or without it where it is on."""
        return self.address(kinds=self.query.kinds ^ {kind})

    @property
    def is_filtered(self) -> bool:
        """Whether rollouts may be left out."""
        return bool(self.query.kinds or self.query.task is not None or self.query.group)

    @property
    def words(self) -> str:
        """What it shows, for a caption."""
        asked = self.query
        kinds = " or ".join(KINDS[kind].lower() for kind in KINDS if kind in asked.kinds)
        parts = [f"{kinds} rollouts" if kinds else "rollouts"]
        parts += [f"of task {asked.task}"] if asked.task is not None else []
        parts += [f"with {asked.group[0]} {asked.group[1]}"] if asked.group is not None else []
        return f"{' '.join(parts)}, {'slowest first' if asked.order == 'slow' else 'by task'}"


def whole(query: QueryParams, name: str) -> int | None:
    """A whole number of an address, from 0; ``None`` where it is not there. Raises `ViewError`."""
    text = query.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ViewError(f"{name}: '{text[:60]}' is not a whole number.")
    return int(text)


def rollouts_values(
    run: KnownRun, benchmark: KnownBenchmark, table: OutputIndex, view: RolloutsView
) -> dict[str, Any]:
    """Everything that the templates of the list need."""
    page = table.ask(queries.page_of, view.query)
    return {
        "run": run,
        "benchmark": benchmark,
        "view": view,
        "page": page,
        "first": queries.PAGE * (page.page - 1) + 1,
        "counts": table.ask(queries.counts),
        "groups": table.ask(queries.group_values),
        "kinds": KINDS,
        "reading": table.state(),
        "outcome_group": OF_OUTCOME,
        "path": rollouts_path(run, benchmark),
    }


def rollouts_path(run: KnownRun, benchmark: KnownBenchmark) -> str:
    """The address of the list."""
    return f"/evaluations/{run.run_id}/{benchmark.name}/rollouts"
