"""How long before its walltime a job is asked to drain: one rule for every executor."""

from __future__ import annotations

from typing import Final

SHORTEST_LEAD: Final = 20.0
"""Seconds, where half of the walltime is not less."""
LONGEST_LEAD: Final = 120.0
"""Seconds; also where the walltime is somebody else's to choose."""


def drain_lead(walltime: int | None) -> float:
    """Seconds ahead of a walltime: a tenth of it within bounds, at most half; 0 without a walltime."""
    if walltime is None:
        return 0.0
    return min(max(SHORTEST_LEAD, walltime / 10), LONGEST_LEAD, walltime / 2)
