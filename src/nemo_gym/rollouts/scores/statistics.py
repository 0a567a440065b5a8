"""The statistics behind a score. Pure; standard library only; every estimator is defined in its docstring."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

LEVEL = 0.95
"""Confidence level of all intervals."""

Method = Literal["clustered_t", "wilson", "sequential"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate of a mean with its confidence interval."""

    mean: float
    low: float
    high: float
    std_error: float
    """0 when nothing varied between the clusters."""
    method: Method
    clusters: int
    """The number of tasks behind it."""


@dataclass(slots=True)
class ClusterSums:
    """What `clustered_interval` needs of tasks seen one at a time: constant memory whatever their number."""

    clusters: int = 0
    count: float = 0.0
    total: float = 0.0
    square_of_totals: float = 0.0
    total_times_count: float = 0.0
    square_of_counts: float = 0.0

    def add(self, total: float, count: int) -> None:
        """Add one task: the sum of its ``count`` (at least one) values."""
        self.clusters += 1
        self.count += count
        self.total += total
        self.square_of_totals += total * total
        self.total_times_count += total * count
        self.square_of_counts += count * count


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def sample_std(values: Sequence[float]) -> float:
    """Standard deviation with n-1 in the denominator; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def clustered_interval(sums: ClusterSums, least: float = 0.0, most: float = 1.0) -> Interval | None:
    """Mean over all rollouts with an interval that treats the tasks, not the rollouts, as the sample.

    With task totals ``y_c`` of ``n_c`` rollouts, ``C`` tasks, ``N = sum n_c`` and ``m = sum y_c / N``::

        se^2 = C / (C - 1) · sum_c (y_c - m · n_c)^2 / N^2        m ± t(C - 1) · se


    (the linearised ratio estimator; with one rollout a task it is the plain standard error), cut to the
    possible values, which lie between ``least`` and ``most``. When nothing varies between tasks, or there is
    one task only, that formula would claim certainty: then it is the Wilson interval of ``C`` independent
    trials at ``m`` on that scale, and all possible values where one of its ends is infinite. ``None`` without
    any task.
    """
    if not sums.clusters:
        return None
    centre = sums.total / sums.count
    spread = (
        sums.square_of_totals - 2 * centre * sums.total_times_count + centre * centre * sums.square_of_counts
    )
    if sums.clusters == 1 or spread <= 1e-12 * max(1.0, sums.square_of_totals):
        low, high = least, most
        if math.isfinite(width := most - least):
            low, high = (
                least + width * end
                for end in wilson(min(1.0, max(0.0, (centre - least) / width)), sums.clusters)
            )
        return Interval(centre, low, high, 0.0, "wilson", sums.clusters)
    std_error = math.sqrt(sums.clusters / (sums.clusters - 1) * spread) / sums.count
    reach = t_quantile((1 + LEVEL) / 2, sums.clusters - 1) * std_error
    return Interval(
        centre, max(least, centre - reach), min(most, centre + reach), std_error, "clustered_t", sums.clusters
    )


def wilson(share: float, trials: float) -> tuple[float, float]:
    """Wilson score interval for a share observed in ``trials`` independent trials."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    reach = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, centre - reach) if share > 0 else 0.0, min(1.0, centre + reach) if share < 1 else 1.0


def pass_at_k(rollouts: int, passed: int, k: int) -> float:
    """The chance that k rollouts drawn without replacement from those of a task hold one that passed.

    ``1 - C(n - c, k) / C(n, k)``, the unbiased estimator; ``k`` is at most ``rollouts``.
    """
    if not 1 <= k <= rollouts:
        raise ValueError(f"k is {k}, the task has {rollouts} rollouts")
    if rollouts - passed < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / left for left in range(rollouts - passed + 1, rollouts + 1))


def majority_at_k(answers: Iterable[int], scores: Iterable[float]) -> float:
    """Score of the answer that most of the given rollouts gave.

    ``answers`` are numbers that stand for answers, 0 for none; ``scores`` go with them. No answer is not a
    vote. The score of an answer is the mean of its rollouts'; answers with equally many votes are averaged;
    without any vote it is 0.
    """
    votes: defaultdict[int, list[float]] = defaultdict(list)
    for answer, score in zip(answers, scores, strict=True):
        if answer:
            votes[answer].append(score)
    if not votes:
        return 0.0
    most = max(map(len, votes.values()))
    return mean([mean(given) for given in votes.values() if len(given) == most])


@functools.lru_cache(maxsize=256)
def t_quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t distribution, by bisection on its distribution function (to 1e-8 or better)."""
    if not 0 < probability < 1 or degrees <= 0:
        raise ValueError("a probability between 0 and 1 and positive degrees of freedom are needed")
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while t_distribution(high, degrees) < probability:
        low, high = high, high * 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        low, high = (middle, high) if t_distribution(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def t_distribution(value: float, degrees: float) -> float:
    """Distribution function of Student's t."""
    tail = 0.5 * _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + value * value))
    return 1 - tail if value >= 0 else tail


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8)."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x > (a + 1) / (a + b + 2):
        return 1 - front * _beta_fraction(b, a, 1 - x) / b
    return front * _beta_fraction(a, b, x) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, evaluated forwards (Lentz)."""
    tiny = 1e-300
    upper, lower = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1), tiny)
    result = lower
    for step in range(1, 2000):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            lower = 1 / _nonzero(1 + term * lower, tiny)
            upper = _nonzero(1 + term / upper, tiny)
            change = lower * upper
            result *= change
        if abs(change - 1) < 1e-15:
            break
    return result


def _nonzero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
