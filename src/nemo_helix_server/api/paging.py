"""Query parameters that lists share: pages, and filters (`nemo_helix_server.jobs.filtering`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from fastapi import Query, Request

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.errors import MalformedRequestError
from nemo_helix_server.jobs.filtering import json

Page = Annotated[int, Query(ge=1, le=1_000_000_000, description="Which page, counted from 1.")]
PageSize = Annotated[int, Query(ge=1, le=10_000, description="Entries of a page.")]


def filter_pairs(request: Request, others: Collection[str]) -> list[tuple[str, str]]:
    """The parameters ``filter`` and ``filter[…]`` as sent; all but them and ``others`` are refused."""
    pairs = request.query_params.multi_items()
    for name, _ in pairs:
        if name not in others and name != "filter" and not name.startswith("filter["):
            known = ", ".join([*sorted(others), "filter", "filter[<field>]"])
            raise MalformedRequestError(f"there is no parameter '{name[:100]}' here; there are {known}")
    return [(name, value) for name, value in pairs if name == "filter" or name.startswith("filter[")]


def choices(request: Request, others: Collection[str], fields: Collection[str]) -> dict[str, frozenset[str]]:
    """A filter that only says which values of some fields are wanted, as values by field.

    ``filter[status]=error,paused``, ``filter[status][in]=…`` and ``filter={"status": ["error"]}`` work.
    """
    found: dict[str, frozenset[str]] = {}
    for name, value in filter_pairs(request, others):
        given = json.load(value) if name == "filter" else {_field(name): value.split(",")}
        for field, wanted in given.items():
            if field not in fields:
                raise MalformedRequestError(
                    f"there is no filter '{field[:100]}' here; there are {', '.join(fields)}"
                )
            values = frozenset(_values(field, wanted))
            found[field] = found[field] & values if field in found else values
    return found


def statuses(wanted: frozenset[str] | None) -> frozenset[str] | None:
    """The same statuses; raises `MalformedRequestError` naming one that is unknown."""
    known = {str(status) for status in HelixJobStatus}
    for status in sorted(wanted or ()):
        if status not in known:
            raise MalformedRequestError(
                f"no status is called {status[:100]!r}; there are {', '.join(sorted(known))}"
            )
    return wanted


def _field(name: str) -> str:
    inner = name.removeprefix("filter[").removesuffix("]")
    for operator in ("][in", "][$in", "][eq", "][$eq"):
        inner = inner.removesuffix(operator)
    return inner


def _values(field: str, wanted: Any) -> list[str]:
    if isinstance(wanted, dict) and len(wanted) == 1:
        operator, inner = next(iter(wanted.items()))
        wanted = inner if operator in {"$in", "$eq"} else None
    values = wanted if isinstance(wanted, list) else [wanted]
    if not all(isinstance(value, str) for value in values):
        raise MalformedRequestError(f"'{field}' is compared with a text or a list of texts")
    return [value.strip() for value in values]
