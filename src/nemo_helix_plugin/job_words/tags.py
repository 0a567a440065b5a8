"""Tags of jobs: short words that people sort their jobs by, kept among the ``custom_fields`` of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

FIELD = "tags"
"""Key of ``custom_fields``: a list of texts."""
MOST = 50


def tags_of(custom_fields: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The tags among the custom fields of a job; what is not a text is passed over."""
    found = (custom_fields or {}).get(FIELD)
    return tuple(tag for tag in found if isinstance(tag, str) and tag) if isinstance(found, list) else ()


def changed(
    custom_fields: Mapping[str, Any] | None, add: Iterable[str], remove: Iterable[str]
) -> dict[str, Any]:
    """Custom fields with other tags, in the order in which they were given; the rest stays as it is.

    Raises `ValueError` with a sentence for more than `MOST` tags.
    """
    gone = set(remove)
    tags = [tag for tag in dict.fromkeys([*tags_of(custom_fields), *add]) if tag not in gone]
    if len(tags) > MOST:
        raise ValueError(f"a job has at most {MOST} tags, this would be {len(tags)}; remove some")
    fields = {key: value for key, value in (custom_fields or {}).items() if key != FIELD}
    return {**fields, FIELD: tags} if tags else fields
