"""How often to save: the interval that costs least, of what a save takes and how often it is needed. Pure.

The optimum is Daly's (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
dumps", Future Generation Computer Systems 22, 2006), which corrects Young's √(2·δ·M) where saving takes long
beside the time between interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

MAX_OVERHEAD = 0.02
"""The share of the time that saves may take, by default."""

Rule = Literal["daly", "max_overhead", "known_end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalInputs:
    """What an interval is chosen from; times in seconds."""

    save_seconds: float
    """What one save takes: more than nothing, or none would be too many."""
    save_measured: bool
    """Whether that was measured, or estimated from a size."""
    between_interruptions: float
    """The mean time until an interruption that nobody announces."""
    interruptions_measured: bool
    """Whether that was measured, or is `nemo_trainer.contract.PRESUMED_BETWEEN_INTERRUPTIONS`."""
    left_seconds: float | None
    """Until the announced end, for which training saves anyhow; `None` = no end is known."""
    max_overhead: float
    """The largest share of the time that saves may take."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for what no interval can be chosen from."""
        for name in ("save_seconds", "between_interruptions", "max_overhead"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number above 0, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenInterval:
    """An interval, and why it is that one."""

    seconds: float
    """From the end of one save to the beginning of the next."""
    chosen_by: Rule
    """``daly``: it costs least; ``max_overhead``: what costs least would spend too much of the time on saves;
    ``known_end``: as near to those as whole intervals until the announced end come."""
    expected_cost: float
    """The share of the time that saves, and steps trained again after interruptions, are expected to take."""
    inputs: IntervalInputs

    def to_json(self) -> Mapping[str, Any]:
        """For the progress."""
        chosen = {"seconds": round(self.seconds, 3), "chosen_by": self.chosen_by}
        return {**chosen, "expected_cost": round(self.expected_cost, 6), **asdict(self.inputs)}


def daly(save_seconds: float, between_interruptions: float) -> float:
    """The time between two saves, in seconds, at which saves and repeated steps together cost least."""
    delta, mean = save_seconds, between_interruptions
    if delta >= 2 * mean:
        return mean
    ratio = delta / (2 * mean)
    return math.sqrt(2 * delta * mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - delta


def choose(inputs: IntervalInputs) -> ChosenInterval:
    """The interval for these inputs."""
    delta, cap = inputs.save_seconds, inputs.max_overhead
    best = daly(delta, inputs.between_interruptions)
    least = delta * (1 - cap) / cap
    seconds, rule = (best, "daly") if best >= least else (least, "max_overhead")
    left = inputs.left_seconds
    if left is not None and left > 0:
        seconds, rule = _until_the_end(inputs, left, seconds, least), "known_end"
    return ChosenInterval(
        seconds=seconds,
        chosen_by=rule,  # type: ignore[arg-type]
        expected_cost=_cost(seconds, delta, inputs.between_interruptions),
        inputs=inputs,
    )


def _until_the_end(inputs: IntervalInputs, left: float, seconds: float, least: float) -> float:
    """Whole intervals until the end, the last of which ends with the save that is made there anyhow."""
    delta, mean = inputs.save_seconds, inputs.between_interruptions

    def cost(parts: int) -> float:
        return (parts - 1) * delta + left / mean * (left / parts + delta) / 2

    fewest = max(1, math.floor(left / (seconds + delta)))
    candidates = [parts for parts in (fewest, fewest + 1) if parts == 1 or left / parts - delta >= least]
    parts = min(candidates or [1], key=cost)
    return left if parts == 1 else max(left / parts - delta, 0.0)


def _cost(seconds: float, delta: float, mean: float) -> float:
    """First order: a save in each interval, and half an interval lost with each interruption."""
    whole = seconds + delta
    return min(1.0, (delta / whole if whole else 0.0) + whole / (2 * mean))
