"""The verifier of a command's benchmark: the grade is the command's, read by the benchmark's mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from nemo_gym.command_benchmark.agent import GRADE, METRICS, SCORE
from nemo_gym.command_benchmark.options import ResultsMapping
from nemo_gym.command_benchmark.results import reward_of
from nemo_gym.errors import DataError
from nemo_gym.types import (
    Episode,
    Estimate,
    GradedRollout,
    MetricInfo,
    Policy,
    RolloutFailedError,
    Row,
    Task,
    Verdict,
)

REPORTED = "reported"
"""The metric that is the command's own score of the whole run."""


class NoCommandVerifierOptions(BaseModel):
    """The verifier has no options."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CommandVerifier:
    """Read the grade that the command gave."""

    Options: ClassVar[type[BaseModel]] = NoCommandVerifierOptions
    grades_at_once: ClassVar[bool] = True

    def __init__(self, options: BaseModel, models: Mapping[str, Policy] | None = None) -> None:
        del models
        self.options = options
        self._mapping: ResultsMapping | None = None
        self.metrics: dict[str, MetricInfo] = {REPORTED: MetricInfo(True, low=0.0, high=1.0)}

    def bind(self, mapping: ResultsMapping) -> None:
        """Give it the mapping of its benchmark."""
        self._mapping = mapping
        self.metrics |= {name: MetricInfo() for name in mapping.metrics}

    def check_row(self, row: Row) -> str | None:
        """Nothing is needed of a row."""
        del row
        return None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """The recorded grade as a reward."""
        del task
        if self._mapping is None:
            raise RolloutFailedError("verifier_error", "the verifier command needs benchmark.command")
        try:
            reward = reward_of(episode.fields.get(GRADE), self._mapping)
        except DataError as error:
            raise RolloutFailedError("verifier_error", str(error)) from None
        return Verdict(reward, episode.text.strip() or None, metrics=episode.fields.get(METRICS) or {})

    def aggregate(self, rollouts: Iterable[GradedRollout]) -> Mapping[str, Estimate]:
        """The command's own score, where it says one."""
        said = (rollout.episode.fields.get(SCORE) for rollout in rollouts)
        return {REPORTED: Estimate(next((score for score in said if score is not None), None))}
