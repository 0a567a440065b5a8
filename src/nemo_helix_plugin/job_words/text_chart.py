"""Curves as text for a terminal: drawn with dots of Braille, and below each chart what it shows in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from nemo_helix_plugin.job_words.curves import Break, Curve

LEAST_WIDTH = 30
MARGIN = 14
"""Columns left of the plotted area: numbers of the axis."""
_COLORS = ("cyan", "yellow", "magenta", "green", "blue", "red")


def charts(
    curves: Mapping[str, Sequence[Curve]],
    breaks: Mapping[str, Sequence[Break]],
    *,
    width: int,
    height: int,
    color: bool,
    unicode: bool = True,
) -> Iterator[str]:
    """A chart for each quantity, with all jobs' curves of it, then its sentences.

    ``curves`` and ``breaks`` are by the job's name; ``width`` and ``height`` count characters. Vertical lines
    are breaks. Without colours, which distinguish curves, each has a chart to itself. Where the terminal has
    no Unicode, or is too narrow, there are sentences alone.
    """
    several = len(curves) > 1
    labelled = [
        _Labelled(f"{job}: " if several else "", curve) for job, found in curves.items() for curve in found
    ]
    drawn = unicode and width >= LEAST_WIDTH + MARGIN
    steps = [brk.step for job in curves for brk in breaks.get(job, ())]
    for _, group in groupby(sorted(labelled, key=_Labelled.order), key=lambda one: one.chart(color=color)):
        found = list(group)
        sentences = "\n".join(one.job + one.curve.sentence() for one in found)
        chart = _chart(found, steps, width=width - MARGIN, height=height, color=color) if drawn else ""
        yield f"{chart}\n\n{sentences}" if chart else sentences
    ends = [(f"{job}: " if several else "", brk) for job in curves for brk in breaks.get(job, ())]
    if ends:
        yield "\n".join(f"{job}at step {brk.step}: {brk.why}" for job, brk in ends)


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A curve, and before its name that of its job, where there are several."""

    job: str
    curve: Curve

    def order(self) -> tuple[bool, str, str, str]:
        """Losses first; curves of one quantity beside each other."""
        quantity = self.curve.quantity
        return (quantity != "loss", quantity, self.curve.name, self.job)

    def chart(self, *, color: bool) -> tuple[str, ...]:
        """Which curves are drawn in the same chart."""
        return (self.curve.quantity,) if color else (self.curve.quantity, self.curve.name, self.job)


def _chart(
    labelled: Sequence[_Labelled], breaks: Sequence[int], *, width: int, height: int, color: bool
) -> str:
    import plotille

    figure = plotille.Figure()
    figure.width, figure.height = width, height
    figure.color_mode, figure.with_colors = "names", color
    figure.x_label, figure.y_label = "step", labelled[0].curve.quantity
    figure.x_ticks_fkt = lambda value, _most: f"{value:.0f}"
    figure.y_ticks_fkt = lambda value, _most: f"{value:.4g}"
    curves = [one.curve for one in labelled]
    first = min(curve.steps[0] for curve in curves)
    last = max(curve.steps[-1] for curve in curves)
    figure.set_x_limits(min_=first, max_=max(last, first + 1))
    low = min(min(curve.values) for curve in curves)
    high = max(max(curve.values) for curve in curves)
    around = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    figure.set_y_limits(min_=low - around, max_=high + around)
    for number, one in enumerate(labelled):
        shade = _COLORS[number % len(_COLORS)] if color else None
        figure.plot(one.curve.steps, one.curve.values, label=one.job + one.curve.name, lc=shade)
    for step in sorted({step for step in breaks if first < step < last}):
        figure.axvline((step - first) / (last - first))
    return str(figure.show(legend=len(curves) > 1)).rstrip()
