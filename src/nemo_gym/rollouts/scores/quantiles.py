"""Exact quantiles of many numbers without a second copy of them as Python objects."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

_CHUNK = 65_536


class Ordered:
    """Numbers kept in sorted runs: eight bytes each, and a few megabytes while a run is being sorted."""

    def __init__(self, values: Iterable[float]) -> None:
        self._runs = list(_sorted_runs(iter(values)))
        self.count = sum(map(len, self._runs))

    def __iter__(self) -> Iterator[float]:
        for run in self._runs:
            yield from run

    def quantile(self, share: float) -> float:
        """Linear interpolation between the two nearest ranks, ``share * (n - 1)`` from 0; NaN of nothing."""
        if not self.count:
            return math.nan
        position = share * (self.count - 1)
        below = self.rank(math.floor(position))
        rest = position - math.floor(position)
        return below if not rest else below + rest * (self.rank(math.floor(position) + 1) - below)

    def rank(self, number: int) -> float:
        """The value at a rank, from 0."""
        if len(self._runs) == 1:
            return self._runs[0][number]
        low, high = min(run[0] for run in self._runs), max(run[-1] for run in self._runs)
        if self._at_most(low) > number:
            return low
        while True:  # fewer than `number` + 1 values are at most `low`, enough are at most `high`
            following = min(run[at] for run in self._runs if (at := bisect_right(run, low)) < len(run))
            if self._at_most(following) > number:
                return following
            middle = low + (high - low) / 2
            if not following < middle < high:
                low = following
            elif self._at_most(middle) > number:
                high = middle
            else:
                low = middle

    def _at_most(self, value: float) -> int:
        return sum(bisect_right(run, value) for run in self._runs)


def _sorted_runs(values: Iterator[float]) -> Iterator[array[float]]:
    while run := sorted(islice(values, _CHUNK)):
        yield array("d", run)
