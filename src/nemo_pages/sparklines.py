"""Small drawings beside numbers, as SVG without styles of their own; the text beside them has the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 96, 24
_EDGE = 2.0
MOST_POINTS = 96


def sparkline(values: Sequence[float | None]) -> Markup:
    """A line through values in their order; with gaps where one is missing or not finite.

    Empty for fewer than two values. More than 96 values are thinned: of neighbours the mean is drawn.
    """
    points = _thinned([value if _finite(value) else None for value in values])
    there = [value for value in points if value is not None]
    if len(there) < 2:
        return Markup()
    low, high = min(there), max(there)
    span = high - low or 1.0
    step = (WIDTH - 2 * _EDGE) / max(1, len(points) - 1)
    parts: list[list[str]] = [[]]
    last = (0.0, 0.0)
    for at, value in enumerate(points):
        if value is None:
            parts.append([])
            continue
        last = (
            _EDGE + at * step,
            HEIGHT / 2 if low == high else _EDGE + (high - value) / span * (HEIGHT - 2 * _EDGE),
        )
        parts[-1].append(f"{last[0]:.1f},{last[1]:.1f}")
    lines = Markup().join(
        Markup('<polyline points="{}"/>').format(" ".join(part)) for part in parts if len(part) > 1
    )
    dot = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="2"/>').format(*last)
    return _drawing("spark", lines + dot)


def interval(value: float, low: float, high: float) -> Markup:
    """A value and its interval on a scale from 0 to 1: a whisker with a dot."""
    x, left, right = (_EDGE + min(1.0, max(0.0, each)) * (WIDTH - 2 * _EDGE) for each in (value, low, high))
    middle = HEIGHT / 2
    scale = Markup('<line class="scale" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
        _EDGE, WIDTH - _EDGE, middle, middle
    )
    whisker = Markup('<line class="whisker" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(
        left, right, middle, middle
    )
    dot = Markup('<circle cx="{:.1f}" cy="{}" r="3"/>').format(x, middle)
    return _drawing("interval", scale + whisker + dot)


def _drawing(kind: str, content: Markup) -> Markup:
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true" focusable="false">'
        "{}</svg>"
    ).format(kind, WIDTH, HEIGHT, WIDTH, HEIGHT, content)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _thinned(values: list[float | None]) -> list[float | None]:
    if len(values) <= MOST_POINTS:
        return values
    found: list[float | None] = []
    for at in range(MOST_POINTS):
        part = values[at * len(values) // MOST_POINTS : (at + 1) * len(values) // MOST_POINTS]
        there = [value for value in part if value is not None]
        found.append(sum(there) / len(there) if there else None)
    return found
