"""The charts of a job: its series, as they are under ``metrics`` in status details."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from nemo_helix_server.jobs.model import Job

DEFAULT_GLOBS = (
    "*loss",
    "*lr",
    "*learning_rate",
    "*grad_norm",
    "*accuracy*",
    "*reward*",
    "*margin*",
    "*kl*",
    "eval_*",
)
ALWAYS = ("train_loss", "val_loss")
_PLACES = ((), ("schedule",), ("training",))


def globs(job: Job) -> tuple[str, ...]:
    """Which series the job's spec asks for; ``["*"]`` is all of them."""
    for place in _PLACES:
        found: Any = job.spec
        for part in (*place, "progress_reporting", "time_series_metrics"):
            found = found.get(part) if isinstance(found, Mapping) else None
        if isinstance(found, list):
            return tuple(str(pattern) for pattern in found)
    return DEFAULT_GLOBS


def shown(
    series: Mapping[str, Sequence[Mapping[str, Any]]], patterns: Iterable[str], reported: Any = None
) -> dict[str, Any] | None:
    """``{metric: [{step, epoch, value}…]}`` of the series that were asked for; None where there is nothing.

    `reported` are series that a workload wrote into its details itself; ours, which have each step once, win.
    """
    wanted = tuple(patterns)
    chosen = {
        name: points
        for name, points in series.items()
        if any(fnmatchcase(name, pattern) for pattern in wanted)
    }
    if not chosen and not reported:
        return None
    return {**{name: [] for name in ALWAYS}, **(reported if isinstance(reported, Mapping) else {}), **chosen}
