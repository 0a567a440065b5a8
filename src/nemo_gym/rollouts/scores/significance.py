"""Which of several differences are shown, when all of them are looked at together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_gym.rollouts.scores.compare import Paired
from nemo_gym.rollouts.scores.statistics import t_distribution

ALPHA = 0.05
"""The chance that at least one of the differences that are called shown is not there."""


def p_value(paired: Paired) -> float:
    """The chance of a mean difference at least this large if there were none: two-sided, paired t test.

    When all differences are equal there is nothing to estimate a spread from; then it is the sign test, in
    which each of ``n`` tasks goes either way with even chance: ``2 / 2 ** n``.
    """
    if paired.difference == 0:
        return 1.0
    if paired.method == "wilson":
        return min(1.0, 2.0 * 0.5**paired.tasks)
    return min(1.0, 2.0 * t_distribution(-abs(paired.difference) / paired.std_error, paired.tasks - 1))


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm 1979), in the given order; each is at most 1.

    Calling shown what is below `ALPHA` errs with at most that chance in the whole family, however the
    differences depend on each other.
    """
    order = sorted(range(len(values)), key=lambda at: values[at])
    adjusted = [1.0] * len(values)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[at]))
        adjusted[at] = highest
    return adjusted
