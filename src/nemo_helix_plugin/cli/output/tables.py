"""Tables for people: as wide as the terminal, names always whole, notes wrapped, other long values cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table
from rich.text import Text

from nemo_helix_plugin.cli.output import cells, columns

Record = Mapping[str, Any]
Extra = tuple[str, Callable[[Record], str]]

GAP = 2
LEAST = 10
"""A narrower column says nothing."""
NOTE = 22
"""With less space for the note, columns that can be done without make place."""
DISPENSABLE = ("description", "project", "updated_at", "who", "is_current")
HEADS = {"size_bytes": "size", "storage_bytes": "storage"}
WRAPPED = frozenset({"note", "why", "message", "settings"})
"""Sentences: they are wrapped, not cut."""
_WHOLE = ("status", "_at", "at", "id", "change", "seq", "size_bytes", "storage_bytes", "verified", "role")

Grid = tuple[list[str], list[list[Text]]]


def table(
    records: Sequence[Record],
    names: Sequence[str],
    display: cells.DisplayOptions,
    *,
    width: int | None,
    extra: Extra | None = None,
    whole: bool = False,
) -> Table:
    """A table of records; ``extra`` is one more column, which people get only.

    ``width`` is the terminal's, or `None` for as wide as it gets; with ``whole`` no value is cut.
    """
    heads, rows = _fitting(records, names, display, width, extra)
    widths = _widths(heads, rows, width)
    made = Table(box=None, show_edge=False, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name, limit in zip(heads, widths, strict=True):
        cut = not whole and name not in WRAPPED and not _is_whole(name)
        made.add_column(
            HEADS.get(name, name).replace("_", " "),
            width=limit,
            no_wrap=cut,
            overflow="ellipsis" if cut else "fold",
            justify="right" if _is_number(records, name) else "left",
        )
    for row in rows:
        made.add_row(*row)
    return made


def _fitting(
    records: Sequence[Record],
    names: Sequence[str],
    display: cells.DisplayOptions,
    width: int | None,
    extra: Extra | None,
) -> Grid:
    """Heads and cells: with shorter times and fewer columns where the terminal is too narrow for all."""
    grid = _grid(records, names, display, extra)
    if width is None or _needed(grid) <= width:
        return grid
    short = replace(display, seconds=False)
    grid = _grid(records, names, short, extra)
    cut = [name for name in grid[0] if not _is_whole(name)]
    limits = dict.fromkeys(WRAPPED, NOTE) if WRAPPED & set(cut) else dict.fromkeys(cut, LEAST)
    for name in DISPENSABLE:
        if _needed(grid, at_most=limits) > width:
            names = [other for other in names if other != name]
            grid = _grid(records, names, short, extra)
    return grid


def _grid(
    records: Sequence[Record], names: Sequence[str], display: cells.DisplayOptions, extra: Extra | None
) -> Grid:
    """All cells, without the columns that are empty; the first one stays."""
    heads = [*names, *([extra[0]] if extra else [])]
    rows = [
        [cells.cell(name, columns.value(record, name), display) for name in names]
        + ([Text(cells.printable(extra[1](record)))] if extra else [])
        for record in records
    ]
    kept = [i for i in range(len(heads)) if i == 0 or any(row[i].plain for row in rows)]
    return [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _is_number(records: Sequence[Record], name: str) -> bool:
    found = [columns.value(record, name) for record in records]
    return any(value is not None for value in found) and all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in found
    )


def _is_whole(name: str) -> bool:
    return name in {"name", "job", "attempt", "task"} or name.endswith(_WHOLE)


def _natural(grid: Grid) -> list[int]:
    heads, rows = grid
    return [
        max(len(HEADS.get(head, head)), *(row[i].cell_len for row in rows), 1) for i, head in enumerate(heads)
    ]


def _needed(grid: Grid, *, at_most: Mapping[str, int] | None = None) -> int:
    """How wide a terminal would have to be, if some columns get no more than this."""
    limits = at_most or {}
    sizes = zip(grid[0], _natural(grid), strict=True)
    return sum(min(size, limits.get(head, size)) for head, size in sizes) + GAP * (len(grid[0]) - 1)


def _widths(heads: list[str], rows: list[list[Text]], width: int | None) -> list[int]:
    """How wide each column is: what must be whole comes first, and the others share what is left."""
    sizes = _natural((heads, rows))
    available = (width or 0) - GAP * (len(heads) - 1)
    if width is None or sum(sizes) <= available:
        return sizes
    free = [i for i, head in enumerate(heads) if not _is_whole(head)]
    left = available - sum(size for i, size in enumerate(sizes) if i not in free)
    for number, i in enumerate(sorted(free, key=sizes.__getitem__)):
        sizes[i] = min(sizes[i], max(LEAST, left // (len(free) - number)))
        left -= sizes[i]
    sizes[0] = max(min(LEAST, sizes[0]), sizes[0] - max(0, sum(sizes) - available))
    while sum(sizes) > available and max(sizes) > LEAST:  # a long identifier is folded before all others are
        sizes[sizes.index(max(sizes))] -= 1
    return sizes
