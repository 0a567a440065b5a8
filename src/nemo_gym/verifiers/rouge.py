"""ROUGE, by the package ``rouge-score``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.types import Episode, MetricInfo, Policy, Row, Task, Verdict
from nemo_gym.verifiers.expected import lacks_texts, right_answers
from nemo_gym.verifiers.grading_processes import GradingProcesses
from nemo_gym.verifiers.libraries import require

Kind = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]


class RougeOptions(BaseModel):
    """Options of the ROUGE verifier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer_field: str = "expected_answer"
    """The field of the row that holds the reference text, or a list of them."""
    kinds: list[Kind] = Field(["rouge1", "rouge2", "rougeL"], min_length=1)
    """Which ones are measured: ``rouge1``, ``rouge2``, ``rougeL``, ``rougeLsum`` (a sentence per line)."""
    score: Kind = "rougeL"
    """The one that is the reward; the others of ``kinds`` are metrics."""
    use_stemmer: bool = True
    """Compare the stems of English words."""
    timeout_seconds: float = Field(60, gt=0, allow_inf_nan=False)
    """How long one answer may take."""


class RougeVerifier:
    """The reward is the F-measure of one kind of ROUGE, against the reference that fits best."""

    Options: ClassVar[type[BaseModel]] = RougeOptions

    def __init__(self, options: BaseModel, _models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("RougeOptions", options)
        require("rouge_score", "rouge-score", "rouge")
        kinds = list(dict.fromkeys([*self.options.kinds, self.options.score]))
        self.metrics = {
            kind: MetricInfo(higher_is_better=True, low=0.0, high=1.0, unseen=0.0)
            for kind in kinds
            if kind != self.options.score
        }
        arguments = {"kinds": kinds, "use_stemmer": self.options.use_stemmer}
        self._processes = GradingProcesses(
            "nemo_gym.verifiers.rouge:grader", arguments, time_limit=self.options.timeout_seconds
        )

    def check_row(self, row: Row) -> str | None:
        """The row needs references that are texts."""
        return lacks_texts(row, self.options.answer_field)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare with each reference and take the best of each kind."""
        right = [str(one) for one in right_answers(task.row, self.options.answer_field)]
        found = await self._processes.call(answer=episode.text, right=right)
        reward = found.pop(self.options.score)
        return Verdict(reward, episode.text.strip() or None, metrics=found)


def grader(kinds: Sequence[str], *, use_stemmer: bool) -> Callable[..., dict[str, float]]:
    """In a grading process: the F-measures of an answer by kind."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(kinds), use_stemmer=use_stemmer)

    def grade(answer: str, right: Sequence[str]) -> dict[str, float]:
        found = scorer.score_multi(list(right), answer)
        return {kind: float(found[kind].fmeasure) for kind in kinds}

    return grade
