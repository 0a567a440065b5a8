"""States of Slurm jobs and what each means for the job that comes after: one table, ``states.tsv``.

`read_state` takes what ``sacct``, ``squeue`` or ``scontrol`` print, cut short or with an author
(``CANCELLED by 1000``, ``OUT_OF_ME+``). What nobody has heard of counts as `Meaning.OTHER`, never as done.
"""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_TEXT = re.compile(r"(?P<name>[A-Z_]+)(?P<cut>\+?)(?: by (?P<author>[0-9]+))?")


class Meaning(StrEnum):
    """What a predecessor's state means for its successor."""

    COMPLETE = "complete"
    CANCELLED = "cancelled"
    INFRASTRUCTURE = "infrastructure"
    """Time limit, preemption or a failed node: go on, no retry counted."""
    LAG = "lag"
    """Not an end: the scheduler's record is behind, or the job comes back under its own number."""
    OTHER = "other"
    """A failure: go on, one retry counted."""


@dataclass(frozen=True, slots=True)
class SlurmState:
    """One row of the table, as found for a text."""

    name: str
    """The full name; of an unknown state, the text itself."""
    meaning: Meaning
    reason: str
    """Why a job is in this state, in words."""
    author: int | None = None
    """The user id behind ``CANCELLED by 1000``."""
    known: bool = True
    """False when the table has no such state."""


@functools.cache
def table() -> Mapping[str, SlurmState]:
    """All states by name, in the order of the file."""
    data = pkgutil.get_data("nemo_slurm", "states.tsv") or b""
    rows = (line.split("\t") for line in data.decode().splitlines() if line and not line.startswith("#"))
    return {name: SlurmState(name, Meaning(meaning), reason) for name, meaning, reason in rows}


def read_state(text: str) -> SlurmState | None:
    """What a scheduler's text says; `None` for an empty one, which means "not known yet" and never "gone"."""
    found = text.strip()
    if not found:
        return None
    match = _TEXT.fullmatch(found)
    row = _row(match["name"], cut=bool(match["cut"])) if match else None
    if match is None or row is None:
        return SlurmState(found, Meaning.OTHER, "a state that is not in the table", known=False)
    author = int(match["author"]) if match["author"] else None
    return SlurmState(row.name, row.meaning, row.reason, author)


def foreign(author: int | None, owner: int | None) -> str:
    """Who cancelled a job, where that was not its owner; empty where it was, or where it is not known.

    Slurm itself acts as root, as administrators do.
    """
    if author is None or author == owner:
        return ""
    if author == 0:
        return "user 0 (an administrator, or Slurm itself)"
    return f"user {author} (not its owner, user {owner})" if owner is not None else ""


def _row(name: str, *, cut: bool) -> SlurmState | None:
    """The row of that name or, of a name that was cut, the rows that begin like it if they mean the same."""
    rows = table()
    if name in rows or not cut:
        return rows.get(name)
    beginning = [row for row in rows.values() if row.name.startswith(name)]
    return beginning[0] if len({row.meaning for row in beginning}) == 1 else None
