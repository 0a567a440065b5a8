"""When the question of a run is answered: a function of the tasks' scores in their order, of nothing else.

The decision falls at the first number of tasks at which the rule holds. It looks at the tasks in the order
that was drawn before the run, at all that come before the first one without its result, and never at what
came back early from further on: which answers are fast does not matter, nor how many were in flight, nor when
the run was stopped and went on.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nemo_gym.rollouts.sequential.sequence import ConfidenceSequence

LEVEL = 0.95
"""Of all limits of a run together, whenever one looks."""
_ROUNDING = 1e-12


def task_order(tasks: int, seed: int) -> list[int]:
    """All task indexes in random order: by the SHA-256 of ``seed:index``.

    Every machine and version draws the same, and more tasks of the same data keep the order of the first.
    """
    return sorted(range(tasks), key=lambda task: hashlib.sha256(f"{seed}:{task}".encode()).digest())


@dataclass(frozen=True, slots=True)
class ScoreLimits:
    """An estimate with limits that hold at whatever number of tasks one looks."""

    mean: float | None
    """``None`` where no task has a score."""
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the distance between the limits."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True)
class StoppingState:
    """What is known after the first ``tasks_used`` tasks of the order."""

    tasks_used: int
    outcome: str | None
    """``precise``, ``better``, ``worse`` or ``equal``; ``None`` while nothing is decided."""
    score: ScoreLimits
    difference: ScoreLimits | None = None
    """The score minus that of the reference run, with ``better_than``."""
    given_up: tuple[int, ...] = ()
    """Rollouts (``task_index * num_repeats + rollout_index``) of these tasks that had failed for good: in the
    limits each may have been anything from 0 to 1."""

    def to_json(self) -> dict[str, Any]:
        """As the plan's file keeps it."""
        return {**asdict(self), "given_up": list(self.given_up)}

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> StoppingState:
        """Read what `to_json` gave; `KeyError` or `TypeError` for anything else."""
        difference = found["difference"]
        return cls(
            int(found["tasks_used"]),
            found["outcome"],
            ScoreLimits(**found["score"]),
            None if difference is None else ScoreLimits(**difference),
            tuple(found["given_up"]),
        )


class Decider:
    """Takes the tasks one by one, in the order of `task_order`, until the rule holds.

    ``tuned_for`` is the half width that bets are made for, which must be chosen before the first score is
    seen; ``half_width`` is the one at which to stop. With ``reference``, the scores of the reference run in
    the same order, the difference decides.
    """

    def __init__(
        self,
        tasks: int,
        *,
        half_width: float | None = None,
        tuned_for: float | None = None,
        reference: Sequence[float] | None = None,
        alpha: float = 1 - LEVEL,
    ) -> None:
        self._tasks = tasks
        self._half_width = half_width
        self._reference = reference
        self._scores = ConfidenceSequence(tasks, alpha=alpha, half_width=tuned_for or half_width)
        self._versus = None if reference is None else ConfidenceSequence(tasks, alpha=alpha, versus=0.5)
        self._total = self._total_difference = 0.0
        self._known = 0
        self._exact = True
        self._given_up: list[int] = []
        self.outcome: str | None = None

    @property
    def tasks_used(self) -> int:
        """How many scores were taken."""
        return self._scores.seen

    def take(self, rewards: Sequence[float], given_up: Sequence[int] = ()) -> str | None:
        """Take the next task: its measured rewards in [0, 1], and which of its rollouts failed for good.

        Gives the outcome, if it fell; nothing is taken any more after that. A task without either, since all
        of it was masked or left unscored, may have any score.
        """
        if self.outcome is not None:
            return self.outcome
        low, high = _bounds(rewards, len(given_up))
        score = math.fsum(rewards) / len(rewards) if rewards else None
        if self._versus is not None and self._reference is not None:
            other = self._reference[self.tasks_used]
            self._versus.take((1 + low - other) / 2, (1 + high - other) / 2)
            self._total_difference += 0.0 if score is None else score - other
        self._scores.take(low, high)
        self._given_up += given_up
        self._exact = self._exact and low == high
        if score is not None:
            self._known += 1
            self._total += score
        self.outcome = self._decide()
        return self.outcome

    def _decide(self) -> str | None:
        if self._versus is None:
            assert self._half_width is not None
            half_width = (self._scores.high - self._scores.low) / 2
            return "precise" if half_width <= self._half_width + _ROUNDING else None
        if self._versus.is_above(0.5):
            return "better"
        if self._versus.is_below(0.5):
            return "worse"
        return "equal" if self._exact and self.tasks_used == self._tasks else None

    @property
    def finding(self) -> StoppingState:
        """What is known so far."""
        known = self._known
        score = ScoreLimits(self._total / known if known else None, self._scores.low, self._scores.high)
        difference = None
        if self._versus is not None:
            low, high = 2 * self._versus.low - 1, 2 * self._versus.high - 1
            difference = ScoreLimits(self._total_difference / known if known else None, low, high)
        return StoppingState(self.tasks_used, self.outcome, score, difference, tuple(self._given_up))


def _bounds(rewards: Sequence[float], given_up: int) -> tuple[float, float]:
    """Between what the score of a task lies: the mean of its repeats, some of which are not known."""
    count = len(rewards) + given_up
    if not count:
        return 0.0, 1.0
    total = math.fsum(rewards)
    return total / count, (total + given_up) / count
