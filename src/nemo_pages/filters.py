"""How values are written in pages: numbers with units, ages, times, shares; as markup where it needs any."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from nemo_pages.sparklines import interval, sparkline
from nemo_pages.text import one_line, visible
from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words
from nemo_runs.sizes import size_in_words

NOTHING = Markup('<span class="nothing" aria-hidden="true">&ndash;</span><span class="unseen">none</span>')
"""What is shown for a value that does not exist."""


_EXPONENT = re.compile(r"e([+-])0*(\d+)$")
"""People write ``3e-5``, not ``3e-05``."""


def number(value: float | None, digits: int = 3) -> str | Markup:
    """A number with thousands separators, or with so many significant digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}".replace("-", "\u2212")
    if math.isinf(value):
        return "\u221e" if value > 0 else "\u2212\u221e"
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else _short(f"{value:.{digits}g}")
    return text.replace("-", "\u2212")


def _short(text: str) -> str:
    return _EXPONENT.sub(lambda found: f"e{found[1].replace('+', '')}{found[2]}", text)


def percent(value: float | None, digits: int = 1) -> str | Markup:
    """A share between 0 and 1 as ``71.2 %``."""
    return NOTHING if value is None else f"{value * 100:.{digits}f}\u202f%"


def duration(seconds: float | None, units: int = 2) -> str | Markup:
    """Seconds in words: ``1 h 2 min``."""
    return NOTHING if seconds is None else duration_in_words(seconds, units=units)


def size(count: float | None) -> str | Markup:
    """Bytes in words: ``1.23 GB``."""
    return NOTHING if count is None else size_in_words(count)


def moment(seconds: float | None) -> Markup:
    """A time that scripts turn into the viewer's zone, with UTC on hover; UTC without scripts.

    ``seconds`` since 1970 in UTC.
    """
    return _time(seconds, "moment")


def ago(seconds: float | None) -> Markup:
    """The same time as its age, ``5 min ago``, which scripts keep true; a date without scripts."""
    return _time(seconds, "ago")


def _time(seconds: float | None, kind: str) -> Markup:
    try:
        at = datetime.fromtimestamp(seconds, UTC) if seconds is not None else None
    except (OverflowError, OSError, ValueError):
        at = None
    if at is None:
        return NOTHING
    utc = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    stamp = at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}" data-time="{}">{}</time>').format(
        stamp, utc, kind, f"{at:%Y-%m-%d %H:%M} UTC"
    )


FILTERS: Mapping[str, Any] = {
    "number": number,
    "percent": percent,
    "duration": duration,
    "size": size,
    "moment": moment,
    "ago": ago,
    "visible": visible,
    "one_line": one_line,
}
"""Filters of all templates, by name."""
FUNCTIONS: Mapping[str, Any] = {
    "counted": counted,
    "nothing": NOTHING,
    "sparkline": sparkline,
    "interval": interval,
}
"""Functions and values of all templates, by name."""
