"""What the rows of a run that may stop early come to: its decision, and the limits of its score."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.manifest import OutputManifest
from nemo_gym.rollouts.scores import columns as cols
from nemo_gym.rollouts.scores.columns import Columns
from nemo_gym.rollouts.scores.statistics import ClusterSums, Interval, clustered_interval
from nemo_gym.rollouts.sequential.decision import StoppingState
from nemo_gym.rollouts.sequential.plan import StoppingPlan, load_plan


@dataclass(frozen=True, slots=True)
class UntilScores:
    """A plan and what follows from the rows."""

    plan: StoppingPlan
    finding: StoppingState
    std_error: float

    @property
    def decided(self) -> bool:
        """Whether what was not asked is not needed."""
        return self.finding.outcome is not None

    @property
    def interval(self) -> Interval | None:
        """The score of the tasks used; ``None`` where all tasks or none are: then the usual one says more."""
        found = self.finding
        if found.score.mean is None or found.tasks_used == self.plan.tasks:
            return None
        score = found.score
        return Interval(
            score.mean or 0.0, score.low, score.high, self.std_error, "sequential", found.tasks_used
        )

    def to_json(self) -> dict[str, Any]:
        """For the summary."""
        return self.plan.summed(self.finding)


def until_scores(paths: RolloutPaths, columns: Columns) -> UntilScores | None:
    """What follows from the rows for the plan beside them; ``None`` without a plan.

    Raises `nemo_gym.errors.DataError` for a damaged plan.
    """
    plan = load_plan(paths.until)
    if plan is None or (plan.tasks, plan.repeats) != (columns.num_tasks, columns.num_repeats):
        return None
    gone = plan.gone
    finding = plan.found(lambda task: _settled(columns, task, gone))
    sums = ClusterSums()
    for task in plan.order[: finding.tasks_used]:
        rewards, _ = _settled(columns, task, gone) or ([], [])
        if rewards:
            sums.add(math.fsum(rewards) / len(rewards), 1)
    usual = clustered_interval(sums)
    return UntilScores(plan, finding, 0.0 if usual is None else usual.std_error)


def keep_decision(paths: RolloutPaths, known: OutputManifest) -> None:
    """Write into the plan, where there is one, what follows from the rows now that they have other grades."""
    if not paths.until.exists():
        return
    columns = cols.read_columns(paths, num_tasks=known.num_tasks, num_repeats=known.num_repeats)
    found = until_scores(paths, columns)
    if found is not None:
        replace(found.plan, decision=found.finding if found.decided else None).save(paths.until)


def _settled(columns: Columns, task: int, gone: frozenset[int]) -> tuple[list[float], list[int]] | None:
    """Measured rewards and what was given up; ``gone`` is that, whatever it became since."""
    first = task * columns.num_repeats
    places = range(first, first + columns.num_repeats)
    given_up = [at for at in places if at in gone]
    if not all(columns.state[at] & _RECORDED for at in places if at not in gone):
        return None
    rewards = [columns.reward[at] for at in places if at not in gone and not math.isnan(columns.reward[at])]
    return rewards, given_up


_RECORDED = cols.MEASURED | cols.MASKED | cols.UNSCORED
