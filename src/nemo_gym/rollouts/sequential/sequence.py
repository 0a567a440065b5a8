"""A confidence sequence for the mean of a finite set, sampled in random order without replacement.

The method is the hedged betting confidence sequence of I. Waudby-Smith and A. Ramdas, "Estimating means of
bounded random variables by betting", Journal of the Royal Statistical Society B 86 (2024), sections 4.4 and
5 (https://arxiv.org/abs/2010.09686); the same authors, "Confidence sequences for sampling without
replacement", NeurIPS 2020, section 2, for the finite set. Pure; standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

LARGEST_BET: Final = 0.75
"""Share of the capital that one bet may lose; the paper recommends 1/2 or 3/4."""
_ROUNDING: Final = 1e-12
_MOST_CANDIDATES: Final = 20_000
_LEAST_CANDIDATES: Final = 400


class LowerLimit:
    """A lower limit for the mean of ``count`` values in [0, 1] that holds after any number of them at once.

    Against each candidate mean ``m`` of a grid a gambler bets that the values are larger. With ``S`` the sum
    of the ``i - 1`` values seen, the next one has under ``m`` the mean ``m_i = (count m - S) / (count - i +
    1)``, whatever order was drawn, and the capital::

        K_i(m) = K_{i-1}(m) · (1 + min(bet_i, c / m_i) · (x_i - m_i))

    with bets that depend on earlier values alone is a nonnegative martingale that begins at 1. By Ville's
    inequality it ever reaches ``1 / alpha`` with a chance of at most ``alpha`` if ``m`` is the mean; then
    ``m`` is ruled out. ``K`` falls with ``m``, so every smaller candidate is ruled out as well.
    """

    def __init__(self, count: int, alpha: float, candidates: int) -> None:
        self._count = count
        self._threshold = 1 / alpha
        self._candidates = candidates
        self._capital = [1.0] * (candidates + 1)
        self._first = 0
        """The smallest candidate that is not ruled out."""
        self._seen = 0
        self._sum = 0.0

    @property
    def value(self) -> float:
        """The largest mean that is ruled out, or what the values seen amount to if all others were 0."""
        return max((self._first - 1) / self._candidates, self.certain)

    @property
    def certain(self) -> float:
        """What the values seen amount to if all others were 0."""
        return self._sum / self._count

    def rules_out(self, mean: float) -> bool:
        """Whether a mean on the grid, and with it every smaller one, cannot be the mean."""
        return self._first > mean * self._candidates or self.certain > mean + _ROUNDING

    def take(self, x: float, bet: float, most: float) -> None:
        """Take the next value; candidates above ``most`` are ruled out by others and need no capital."""
        left, step = self._count - self._seen, self._count / self._candidates
        rounding = _ROUNDING * self._count
        capital, threshold = self._capital, self._threshold
        for at in range(self._first, min(self._candidates, math.ceil(most * self._candidates)) + 1):
            rest = step * at - self._sum  # what the values that are left amount to under this candidate
            if rest <= rounding:  # nothing: every further one is 0, or those seen amount to more already
                if rest < -rounding or x > rest + rounding:
                    self._first = at + 1
                continue
            mean = rest / left
            capital[at] *= 1.0 + min(bet, LARGEST_BET / mean) * (x - mean)
            if capital[at] >= threshold and at == self._first:
                self._first = at + 1
        self._seen += 1
        self._sum += x


@dataclass(slots=True)
class _Moments:
    """Mean and variance of the values before the next one, drawn a little towards 1/2 and 1/4."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.25

    @property
    def mean(self) -> float:
        return (0.5 + self.total) / (self.count + 1)

    @property
    def variance(self) -> float:
        return self.squares / (self.count + 1)

    def take(self, x: float) -> None:
        self.count += 1
        self.total += x
        self.squares += (x - self.mean) ** 2


class ConfidenceSequence:
    """Both limits of the mean of ``count`` values in [0, 1], drawn in random order without replacement.

    At whatever numbers of values one looks, all limits hold at once with a chance of at least ``1 - alpha``;
    each limit takes half of ``alpha``. After the last value both are the mean.

    Bets never depend on the value they are on. The larger of two is taken: the best one for a limit
    ``half_width`` away from the mean (``half_width / variance``), or, with ``versus``, for ruling out that
    mean (the distance of the mean so far / variance). Both grow by ``count / values left``, as distances do
    when the set is used up.
    """

    def __init__(
        self, count: int, *, alpha: float, half_width: float | None = None, versus: float | None = None
    ) -> None:
        self.count = count
        self.seen = 0
        wanted = _LEAST_CANDIDATES if half_width is None else math.ceil(20 / half_width)
        candidates = 2 * (max(_LEAST_CANDIDATES, min(_MOST_CANDIDATES, wanted)) // 2)
        self._alpha = alpha
        self._half_width = half_width
        self._versus = versus
        self._moments = _Moments()
        self._below = LowerLimit(count, alpha / 2, candidates)
        self._above = LowerLimit(count, alpha / 2, candidates)
        """The same of the values turned around, 1 - x."""

    @property
    def low(self) -> float:
        """The lower limit."""
        return self._limits()[0]

    @property
    def high(self) -> float:
        """The upper limit."""
        return self._limits()[1]

    def is_above(self, mean: float) -> bool:
        """Whether the mean is shown to be larger than 1/2, or another candidate."""
        return self._below.rules_out(mean)

    def is_below(self, mean: float) -> bool:
        """Whether the mean is shown to be smaller."""
        return self._above.rules_out(1.0 - mean)

    def take(self, low: float, high: float | None = None) -> None:
        """Take the next value; one that is not known lies between ``low`` and ``high``."""
        high = low if high is None else high
        up, down = self._bets()
        most, least = 1.0 - self._above.value, self._below.value
        self._below.take(low, up, most)
        self._above.take(1.0 - high, down, 1.0 - least)
        self._moments.take((low + high) / 2)
        self.seen += 1

    def _bets(self) -> tuple[float, float]:
        variance = max(self._moments.variance, 1e-6)
        growth = self.count / (self.count - self.seen)
        typical = math.sqrt(2 * variance * math.log(2 / self._alpha) / self.count)
        least = typical if self._half_width is None else self._half_width
        ahead = 0.0 if self._versus is None else self._moments.mean - self._versus
        return max(ahead, least) * growth / variance, max(-ahead, least) * growth / variance

    def _limits(self) -> tuple[float, float]:
        low, high = self._below.value, 1.0 - self._above.value
        if low > high + _ROUNDING:
            low, high = self._below.certain, 1.0 - self._above.certain
        return low, max(low, high)
