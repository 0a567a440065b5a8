"""Any number of runs, each compared with the first; what is shown is corrected for their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.scores.compare import Comparison, Comparisons, compare
from nemo_gym.rollouts.scores.significance import ALPHA, holm, p_value


@dataclass(frozen=True, slots=True)
class NamedOutputs:
    """A run as it was named, and its outputs by benchmark."""

    name: str
    outputs: Mapping[str, RolloutPaths]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """One run against the first one."""

    name: str
    comparisons: Comparisons
    adjusted: Sequence[float]
    """The corrected p-value of each shared benchmark's difference in reward."""

    def conclusions(self) -> list[str]:
        """For each shared benchmark what can be said, all comparisons of the command taken together."""
        return [
            _conclusion(comparison, adjusted)
            for comparison, adjusted in zip(self.comparisons.shared, self.adjusted, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """One entry of ``comparisons``."""
        found = self.comparisons.to_json()
        benchmarks = [
            {
                **values,
                "p_value": p_value(comparison.paired),
                "p_adjusted": adjusted,
                "conclusion": conclusion,
            }
            for values, comparison, adjusted, conclusion in zip(
                found["benchmarks"], self.comparisons.shared, self.adjusted, self.conclusions(), strict=True
            )
        ]
        rest = {"only_first": found["only_a"], "only_this": found["only_b"]}
        return {"run": self.name, "benchmarks": benchmarks, **rest}


def compare_many(runs: Sequence[NamedOutputs]) -> list[RunComparison]:
    """Compare each run with the first one, benchmark by benchmark; see `compare` for what is refused.

    P-values are corrected over all benchmarks of all runs (`holm`).
    """
    first, *others = runs
    found = [compare(first.outputs, run.outputs, names=(first.name, run.name)) for run in others]
    adjusted = iter(holm([p_value(one.paired) for comparisons in found for one in comparisons.shared]))
    return [
        RunComparison(run.name, comparisons, [next(adjusted) for _ in comparisons.shared])
        for run, comparisons in zip(others, found, strict=True)
    ]


def _conclusion(comparison: Comparison, adjusted: float) -> str:
    if adjusted >= ALPHA:
        return "no difference is shown"
    return "better than the first" if comparison.paired.difference > 0 else "worse than the first"
