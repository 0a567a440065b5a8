"""Which columns a list shows: the defaults, all there are, or those that were named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from nemo_runs.suggestions import suggestion

Record = Mapping[str, Any]


def chosen(asked: str | None, defaults: Sequence[str], records: Sequence[Record]) -> list[str]:
    """The columns for ``--output-columns``: `None` and ``default``: the defaults; ``all``: every key.

    A name may lead into a value with dots, as ``spec.backend`` does. With records at hand, a name whose first
    part none of them has is refused.
    """
    if asked in {None, "default"}:
        return list(defaults)
    known = list(dict.fromkeys([*(key for record in records for key in record), *defaults]))
    if asked == "all":
        return known
    names = [name.strip() for name in (asked or "").split(",") if name.strip()]
    if not names:
        raise click.UsageError("--output-columns takes `default`, `all`, or names with commas between them.")
    for name in names:
        if records and name.partition(".")[0] not in known:
            hint = suggestion(name, known) or f"; there are: {', '.join(known)}"
            raise click.UsageError(f"There is no column '{name}'{hint}.")
    return names


def value(record: Record, path: str) -> Any:
    """What a record has at a dotted path; `None` where it has nothing."""
    if path in record:
        return record[path]
    found: Any = record
    for part in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found
