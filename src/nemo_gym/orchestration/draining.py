"""How long before its walltime a job is asked to drain: one rule for every executor."""

from __future__ import annotations

_SHORTEST_LEAD, _LONGEST_LEAD = 20.0, 120.0
"""Seconds."""


def drain_lead(walltime: int | None) -> float:
    """Seconds ahead of a walltime: a tenth of it, within bounds, at most half; 0 where there is no walltime."""
    if walltime is None:
        return 0.0
    return min(max(_SHORTEST_LEAD, walltime / 10), _LONGEST_LEAD, walltime / 2)


def longest_lead() -> float:
    """Seconds ahead of a walltime that is somebody else's to choose."""
    return _LONGEST_LEAD
