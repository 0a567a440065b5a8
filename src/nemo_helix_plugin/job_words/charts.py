"""Curves as a figure of matplotlib, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from nemo_helix_plugin.job_words.curves import Break, Curve


def figure(job: str, curves: Sequence[Curve], breaks: Sequence[Break], *, width: float, height: float) -> Any:
    """A `matplotlib.figure.Figure` with a chart for each quantity; ``width`` and ``height`` of one in inches.

    It does not touch the state of ``pyplot``, so nothing is drawn twice in a notebook.
    """
    from matplotlib.figure import Figure

    ordered = sorted(curves, key=lambda curve: (curve.quantity != "loss", curve.quantity, curve.name))
    groups = [(quantity, list(group)) for quantity, group in groupby(ordered, key=lambda one: one.quantity)]
    made = Figure(figsize=(width, height * max(len(groups), 1)), layout="constrained")
    made.suptitle(job)
    for number, (quantity, group) in enumerate(groups, start=1):
        axes = made.add_subplot(len(groups), 1, number)
        for curve in group:
            axes.plot(curve.steps, curve.values, label=curve.name)
        for brk in breaks:
            axes.axvline(brk.step, color="0.6", linewidth=0.8, linestyle="--")
        axes.set_xlabel("training step")
        axes.set_ylabel(quantity)
        axes.legend()
    return made
