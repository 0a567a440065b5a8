"""Query parameters that lists share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import Query, Request

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import BadRequestError, InvalidError

Page = Annotated[int, Query(ge=1, le=1_000_000_000, description="Which page, counted from 1.")]
PageSize = Annotated[int, Query(ge=1, le=10_000, description="Entries of a page.")]


def filter_pairs(request: Request, others: Collection[str]) -> list[tuple[str, str]]:
    """The parameters ``filter`` and ``filter[…]`` as sent; all but them and ``others`` are refused."""
    pairs = request.query_params.multi_items()
    for name, _ in pairs:
        if name not in others and name != "filter" and not name.startswith("filter["):
            known = ", ".join([*sorted(others), "filter", "filter[<field>]"])
            raise BadRequestError(f"there is no parameter '{name[:100]}' here; there are {known}")
    return [(name, value) for name, value in pairs if name == "filter" or name.startswith("filter[")]


def statuses(text: str | None) -> frozenset[str] | None:
    """A comma list of statuses; raises `InvalidError` naming one that is none."""
    if text is None:
        return None
    found = [part.strip() for part in text.split(",") if part.strip()]
    known = {str(status) for status in HelixJobStatus}
    for status in found:
        if status not in known:
            raise InvalidError(f"there is no status '{status[:100]}'; there are {', '.join(sorted(known))}")
    return frozenset(found)
