"""Which rows and columns of the page Runs are shown, as the address says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self, TypeVar

from starlette.datastructures import QueryParams

from nemo_pages.errors import ViewError
from nemo_pages.links import Parameter
from nemo_pages.runs.rows import RunKind, StateGroup

_Choice = TypeVar("_Choice", bound=StrEnum)
COLUMNS: Final[Mapping[str, str]] = {
    "state": "State",
    "progress": "Progress",
    "measure": "Result",
    "cost": "Cost",
    "submitted": "Started",
    "changed": "Last progress",
    "tags": "Tags",
    "note": "Note",
}
"""Columns that every row has beside its name; further ones are ``value:<dotted name>``."""
DEFAULT_COLUMNS: Final = ("state", "progress", "measure", "cost", "submitted")
VALUE: Final = "value:"
SORTS: Final = ("name", "state", "progress", "measure", "cost", "submitted", "changed")
DEFAULT_SORT: Final = "-submitted"
SIZES: Final = (50, 100, 200)
MOST_COLUMNS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsView:
    """A view of the list. Its address has only what differs from the usual view."""

    text: str = ""
    """Words that a row must have, in any order."""
    groups: tuple[StateGroup, ...] = ()
    kinds: tuple[RunKind, ...] = ()
    tags: tuple[str, ...] = ()
    """All of these."""
    sort: str = DEFAULT_SORT
    """A column, with a minus where it falls."""
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    page: int = 1
    size: int = SIZES[0]

    @classmethod
    def read(cls, query: QueryParams) -> Self:
        """The view of an address. Raises `ViewError` where a part of it means nothing."""
        columns = tuple(dict.fromkeys(query.getlist("column")))[:MOST_COLUMNS]
        for name in columns:
            if name not in COLUMNS and not name.startswith(VALUE):
                raise ViewError(f"There is no column '{name[:60]}'; columns are {', '.join(COLUMNS)}.")
        return cls(
            text=query.get("q", "").strip()[:500],
            groups=_chosen(query, "state", StateGroup),
            kinds=_chosen(query, "kind", RunKind),
            tags=tuple(dict.fromkeys(tag for tag in query.getlist("tag") if tag)),
            sort=_sort(query.get("sort", DEFAULT_SORT)),
            columns=columns or DEFAULT_COLUMNS,
            page=_whole(query, "page", 1),
            size=_size(query),
        )

    @property
    def sorted_by(self) -> str:
        """The column that sorts."""
        return self.sort.removeprefix("-")

    @property
    def falls(self) -> bool:
        """Whether the largest comes first."""
        return self.sort.startswith("-")

    @property
    def is_filtered(self) -> bool:
        """Whether rows may be left out."""
        return bool(self.text or self.groups or self.kinds or self.tags)

    def query(self, **changes: object) -> dict[str, Parameter]:
        """The query of this view with changes; every change but that of the page leads to the first page."""
        view = replace(self, **{"page": 1, **changes})  # type: ignore[arg-type]
        return {
            "q": view.text,
            "state": list(view.groups),
            "kind": list(view.kinds),
            "tag": list(view.tags),
            "sort": view.sort if view.sort != DEFAULT_SORT else None,
            "column": list(view.columns) if view.columns != DEFAULT_COLUMNS else None,
            "page": view.page if view.page > 1 else None,
            "size": view.size if view.size != SIZES[0] else None,
        }

    def paged(self, page: int) -> dict[str, Parameter]:
        """The query of another page of this view."""
        return self.query(page=page)

    def sorting(self, column: str) -> dict[str, Parameter]:
        """The query that sorts by a column, the other way round where it does already."""
        first = column if column == "name" else f"-{column}"
        other = column if first.startswith("-") else f"-{column}"
        return self.query(sort=other if self.sort == first else first)

    def toggled(self, group: StateGroup) -> dict[str, Parameter]:
        """The query that shows one group of states alone, or all of them where it does already."""
        return self.query(groups=() if self.groups == (group,) else (group,))


def _chosen(query: QueryParams, name: str, choices: type[_Choice]) -> tuple[_Choice, ...]:
    found = []
    for value in query.getlist(name):
        if not value:
            continue
        if value not in list(choices):
            raise ViewError(f"{name}: '{value[:60]}' is not one of {', '.join(choices)}.")
        found.append(choices(value))
    return tuple(dict.fromkeys(found))


def _sort(text: str) -> str:
    name = text.removeprefix("-")
    if name not in SORTS and not name.startswith(VALUE):
        raise ViewError(f"Runs cannot be sorted by '{name[:60]}'; say one of {', '.join(SORTS)}.")
    return text


def _whole(query: QueryParams, name: str, usual: int) -> int:
    text = query.get(name) or str(usual)
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) < 10**9:
        raise ViewError(f"{name}: '{text[:60]}' is not a whole number from 1.")
    return int(text)


def _size(query: QueryParams) -> int:
    size = _whole(query, "size", SIZES[0])
    if size not in SIZES:
        raise ViewError(f"size: {size} is not one of {', '.join(map(str, SIZES))}.")
    return size
