"""A judge model that gives each answer a score by a rubric."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nemo_gym.rollouts.judges.agreement import Weights, cohens_kappa, consensus, words_of
from nemo_gym.rollouts.judges.asking import JudgePrompt, JudgeReply, ask, chosen_judge, values_of
from nemo_gym.types import Episode, Estimate, GradedRollout, MetricInfo, Policy, Row, Task, Verdict
from nemo_gym.verifiers.patterns import PatternText, safe_pattern

JUDGED = "judged"
"""Field of a verdict: the judge's replies and what was read in the last one."""
_PROMPT = """\
Grade the answer to a question.

[Question]
{question}

[Reference answer]
{expected_answer}

[Answer]
{answer}

Say in a few sentences how good the answer is, compared with the reference answer. Then end with a line of \
its own that reads "Score: N", where N is a whole number from 1 (wrong) to 10 (right and complete)."""
_AGAIN = 'Your reply has no score that can be read. Reply with one line that reads "Score: " and the score.'
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_SCORE = re.compile(rf"([+-]?{_NUMBER})(?:\s*(?:/|out of)\s*({_NUMBER}))?", re.IGNORECASE)


class RubricOptions(BaseModel):
    """Options of the verifier that asks a judge for a score."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "judge"
    """The name of the judge in ``judge_models``."""
    prompt: str = _PROMPT
    """What the judge is asked: ``{answer}`` stands for the answer, ``{conversation}`` for all that was said,
    the answer too; other names for fields of the row."""
    system: str | None = None
    """The judge's system message, with the same places."""
    pattern: PatternText = (
        r"(?i)\bscore\W*[:=][^\w+\-\u2212]*([\w.,+\-\u2212]*\w(?:\s*(?:/|out of)\s*\d+(?:\.\d+)?)?)"
    )
    """Regular expression; the first group of its last match in the reply is the score. ``4/5`` is one where 5
    is ``high``."""
    low: float = Field(1, allow_inf_nan=False)
    """The score that becomes reward 0; lower ones cannot be."""
    high: float = Field(10, allow_inf_nan=False)
    """The score that becomes reward 1; higher ones cannot be."""
    labels: dict[str, float] | None = None
    """Words in place of numbers, and the reward of each: ``{CORRECT: 1, INCORRECT: 0}``; any case."""
    attempts: int = Field(2, ge=1, le=10)
    """How often the judge is asked for an answer when its reply cannot be read."""
    params: dict[str, Any] = Field(default_factory=lambda: {"temperature": 0})
    """Sampling parameters of the judge; those of ``judge_models`` are put over them."""
    human_field: str | None = None
    """The field of the row that holds what a person said, a score or a label, or a list of what several said:
    then what most of them say counts, else the median of scores. Rows may lack it. The metric ``kappa`` says
    how well the judge agrees with them."""
    kappa_weights: Weights = "none"
    """``linear`` or ``quadratic``: scores that are near count as partly agreeing."""

    @model_validator(mode="after")
    def _has_scale(self) -> Self:
        if self.low >= self.high:
            raise ValueError("low must be below high")
        outside = [label for label, reward in (self.labels or {}).items() if not 0 <= reward <= 1]
        if outside:
            raise ValueError(f"labels: the reward of {outside[0]} is not from 0 to 1")
        if self.labels is not None and self.kappa_weights != "none":
            raise ValueError("kappa_weights needs scores, and labels are words")
        return self


class RubricVerifier:
    """The reward is the judge's score on a scale from 0 to 1.

    A reply that cannot be read is asked for again; when none can, the rollout is recorded without a reward
    (unscored) and counted by the metric ``unreadable``.
    """

    Options: ClassVar[type[BaseModel]] = RubricOptions

    def __init__(self, options: BaseModel, models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("RubricOptions", options)
        self._judge = chosen_judge(models or {}, self.options.model)
        self._prompt = JudgePrompt(
            self.options.prompt, self.options.system, {"answer": "the answer to be graded"}, where="prompt"
        )
        self._pattern = safe_pattern(self.options.pattern)
        self._labels = {label.casefold(): reward for label, reward in (self.options.labels or {}).items()}
        self.metrics = {"unreadable": MetricInfo(higher_is_better=False, low=0.0, high=1.0)}
        if not self._labels:
            self.metrics["score"] = MetricInfo(
                higher_is_better=True, low=self.options.low, high=self.options.high
            )
        if self.options.human_field is not None:
            self.metrics["kappa"] = MetricInfo(higher_is_better=True, low=-1.0, high=1.0)
            self.aggregate = self._agreement

    def check_row(self, row: Row) -> str | None:
        """The row needs the fields of the prompt, and a person's word that can be one where it has any."""
        if problem := self._prompt.problem(row):
            return problem
        field = self.options.human_field
        for word in words_of(row.get(field)) if field is not None else ():
            if self._read(str(word)) is None:
                return (
                    f"'{field}' is neither a score nor a label of this verifier: {word!r:.60}{self._scale()}"
                )
        return None

    def _scale(self) -> str:
        """What would be one, for messages."""
        if self._labels:
            return f"; labels are {', '.join(self.options.labels or ())}"
        return f"; scores are from {self.options.low:g} to {self.options.high:g}"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask the judge, once more for each reply that cannot be read."""
        messages = self._prompt.messages({**values_of(task, episode), "answer": episode.text})
        replies: list[JudgeReply] = []
        for _ in range(self.options.attempts):
            reply = await ask(self._judge, messages, self.options.params)
            replies.append(reply)
            found = self._pattern.find(reply.text)
            read = None if found is None else self._read(found)
            if read is not None:
                return self._verdict(episode, replies, *read)
            messages = [*messages, {"role": "assistant", "content": reply.kept or "…"}]
            messages.append({"role": "user", "content": _AGAIN})
        fields = {JUDGED: {"replies": [one.kept for one in replies], "ends": [one.end for one in replies]}}
        return Verdict(None, episode.text.strip() or None, fields, {"unreadable": 1.0})

    def _verdict(
        self, episode: Episode, replies: list[JudgeReply], said: str | float, reward: float
    ) -> Verdict:
        metrics: dict[str, float | None] = {"unreadable": 0.0}
        if isinstance(said, float):
            metrics["score"] = said
        fields = {JUDGED: {"replies": [one.kept for one in replies], "said": said}}
        return Verdict(reward, episode.text.strip() or None, fields, metrics)

    def _read(self, text: str) -> tuple[str | float, float] | None:
        """A score or a label, and its reward; ``None`` for anything else."""
        text = text.strip().strip("*_").strip()
        if self._labels:
            label = text.casefold()
            return (label, self._labels[label]) if label in self._labels else None
        low, high = self.options.low, self.options.high
        found = _SCORE.fullmatch(text)
        if found is None or (found[2] is not None and float(found[2]) != high):
            return None
        score = float(found[1])
        return (score, (score - low) / (high - low)) if low <= score <= high else None

    def _agreement(self, rollouts: Iterable[GradedRollout]) -> Mapping[str, Estimate]:
        """Kappa over the rollouts whose rows have a person's word."""
        assert self.options.human_field is not None
        pairs: list[tuple[str | float, str | float]] = []
        for rollout in rollouts:
            words = words_of(rollout.task.row.get(self.options.human_field))
            said = (rollout.verdict.fields.get(JUDGED) or {}).get("said")
            human = consensus([read[0] for word in words if (read := self._read(str(word))) is not None])
            if human is not None and said is not None:
                pairs.append((human, said))
        kappa, error = cohens_kappa(pairs, self.options.kappa_weights)
        return {"kappa": Estimate(kappa, error)}
