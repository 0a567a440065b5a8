"""Single values for people: a status in its colour, a time, a size, a bar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rich.text import Text

from nemo_helix_plugin.cli.output import documents
from nemo_helix_plugin.job_words import times
from nemo_runs.sizes import size_in_words

STYLES: Mapping[str, str] = {
    "active": "bold cyan",
    "completed": "green",
    "error": "bold red",
    "paused": "magenta",
    "cancelled": "dim",
    "deletion_pending": "dim",
    "pausing": "yellow",
    "resuming": "yellow",
    "cancelling": "yellow",
}
_SIGNS: Mapping[str, tuple[str, str]] = {
    "active": ("●", "*"),
    "completed": ("✓", "+"),
    "error": ("✗", "!"),
    "paused": ("■", "="),
    "cancelled": ("□", "-"),
    "pausing": ("◐", "~"),
    "resuming": ("◐", "~"),
    "cancelling": ("◐", "~"),
}
_SIZES = frozenset({"size", "size_bytes", "storage_bytes", "storage_size_bytes"})


@dataclass(frozen=True)
class DisplayOptions:
    """How values are shown."""

    now: datetime
    timestamps: str = "iso8601"
    seconds: bool = True
    unicode: bool = True


def status(value: str) -> Text:
    """A status in its colour."""
    return Text(value, style=STYLES.get(value, ""))


def sign(value: str, *, unicode: bool = True) -> Text:
    """One character for a status, in its colour."""
    return Text(_SIGNS.get(value, ("○", "o"))[0 if unicode else 1], style=STYLES.get(value, "dim"))


def bar(done: float, width: int, *, unicode: bool = True) -> Text:
    """A bar of which a part is done."""
    full = round(done * width)
    mark, rest = ("━", "─") if unicode else ("#", ".")
    return Text.assemble((mark * full, "cyan"), (rest * (width - full), "dim"))


def cell(name: str, value: Any, display: DisplayOptions) -> Text:
    """The value of the column ``name``; control characters never reach the terminal."""
    if value is None:
        return Text("")
    if name.endswith("status") and isinstance(value, str):
        return status(printable(value))
    if name.endswith(("_at", "timestamp")) or name == "at":
        moment = times.parsed(value)
        if moment:
            return Text(time_text(moment, replace(display, seconds=display.seconds or name == "at")))
    if name in _SIZES and isinstance(value, int) and not isinstance(value, bool):
        return Text(size_in_words(value))
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    return Text(printable(documents.plain(value)))


def time_text(moment: datetime, display: DisplayOptions) -> str:
    """A time as the user wants to see times."""
    if display.timestamps == "relative":
        return times.relative(moment, display.now)
    return times.exact(moment) if display.seconds else moment.strftime("%Y-%m-%dT%H:%MZ")


def printable(text: str) -> str:
    """Text without what could steer a terminal; newlines become spaces."""
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
