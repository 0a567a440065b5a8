"""How well two raters agree beyond chance: Cohen's kappa with its standard error. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from statistics import median
from typing import Any, Literal

Weights = Literal["none", "linear", "quadratic"]
"""How much two categories that differ still agree: not at all, or by their distance."""


def cohens_kappa(
    pairs: Sequence[tuple[Hashable, Hashable]], weights: Weights = "none"
) -> tuple[float | None, float | None]:
    """Kappa over pairs of ratings, and its standard error.

    With the shares ``p_ij`` of pairs, their margins ``p_i.`` and ``p_.j`` and agreement weights ``w_ij``, 1
    on the diagonal::

        k = (sum w_ij p_ij - e) / (1 - e)          e = sum w_ij p_i. p_.j

    The error is the large-sample one of Fleiss, Cohen and Everitt (1969). Weights other than ``none`` need
    numbers. ``None`` where it is not defined: without pairs, or when both raters always say the same.
    """
    if not pairs:
        return None, None
    count = len(pairs)
    shares = {pair: number / count for pair, number in Counter(pairs).items()}
    first = _margin(a for a, _ in pairs)
    second = _margin(b for _, b in pairs)
    weight = _weights(weights, [*first, *second])
    chance = sum(weight(a, b) * p * q for a, p in first.items() for b, q in second.items())
    if chance >= 1 - 1e-12:
        return None, None
    observed = sum(weight(a, b) * share for (a, b), share in shares.items())
    kappa = (observed - chance) / (1 - chance)
    of_first = {a: sum(weight(a, b) * q for b, q in second.items()) for a in first}
    of_second = {b: sum(weight(a, b) * p for a, p in first.items()) for b in second}
    total = sum(
        share * (weight(a, b) - (of_first[a] + of_second[b]) * (1 - kappa)) ** 2
        for (a, b), share in shares.items()
    )
    variance = (total - (kappa - chance * (1 - kappa)) ** 2) / (count * (1 - chance) ** 2)
    return kappa, math.sqrt(max(0.0, variance))


def consensus(said: Sequence[str | float]) -> str | float | None:
    """What several people say together: what most of them say, else the median of scores.

    ``None`` for words of which none is said more often than another, and where nobody said anything.
    """
    counts = Counter(said).most_common(2)
    if counts and (len(counts) == 1 or counts[0][1] > counts[1][1]):
        return counts[0][0]
    scores = [one for one in said if isinstance(one, float)]
    return median(scores) if scores and len(scores) == len(said) else None


def words_of(value: Any) -> list[Any]:
    """What people said in the field of a row: one of them, or a list of several."""
    return [] if value is None else value if isinstance(value, list) else [value]


def _margin(values: object) -> dict[Hashable, float]:
    counts = Counter(values)  # type: ignore[call-overload] # an iterable of hashables
    total = counts.total()
    return {value: number / total for value, number in counts.items()}


def _weights(kind: Weights, values: Sequence[Hashable]) -> Callable[[Hashable, Hashable], float]:
    if kind == "none":
        return lambda a, b: float(a == b)
    numbers = [float(value) for value in values]  # type: ignore[arg-type] # numbers, as documented
    reach = max(numbers) - min(numbers)
    power = 1 if kind == "linear" else 2

    def weight(a: Hashable, b: Hashable) -> float:
        distance = abs(float(a) - float(b)) / reach if reach else 0.0  # type: ignore[arg-type] # as above
        return 1.0 - distance**power

    return weight
