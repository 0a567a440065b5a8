"""A judge model that compares each answer with one of a reference run, in both orders."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.judges.agreement import cohens_kappa, consensus, words_of
from nemo_gym.rollouts.judges.asking import JudgePrompt, ask, chosen_judge
from nemo_gym.rollouts.output import framing, rows
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
    output_text,
)
from nemo_gym.verifiers.patterns import PatternText, safe_pattern

Preferred = Literal["answer", "reference", "tie"]
PREFERENCES = "preferences"
"""Field of a verdict: what the judge preferred in each order, and its replies."""
_PROMPT = """\
Two assistants answered the same question. Decide which answer is better: right, to the point, helpful. \
Neither their order nor their length counts.

[Question]
{question}

[Answer A]
{answer_a}

[Answer B]
{answer_b}

Compare them in a few sentences. Then end with a line of its own that is "[[A]]" if A is better, "[[B]]" if \
B is better, "[[C]]" if they are equally good."""
_AGAIN = 'Your reply names no choice that can be read. Reply with "[[A]]", "[[B]]" or "[[C]]" alone.'
_REWARDS: dict[Preferred, float] = {"answer": 1.0, "tie": 0.5, "reference": 0.0}
_SHARE = MetricInfo(low=0.0, high=1.0)


class PairwiseOptions(BaseModel):
    """Options of the verifier that asks a judge which of two answers is better."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "judge"
    """The name of the judge in ``judge_models``."""
    reference: str | None = None
    """The rows of the reference run, a ``rollouts.jsonl``, relative to the config that names it."""
    reference_field: str | None = None
    """In place of a run: the field of the row that holds the reference answer."""
    prompt: str = _PROMPT
    """What the judge is asked: ``{answer_a}`` and ``{answer_b}`` stand for the answers, other names for
    fields of the row."""
    system: str | None = None
    """The judge's system message, with the same places."""
    pattern: PatternText = r"\[\[\s*([ABC])\s*\]\]"
    """Regular expression; the first group of its last match is ``A``, ``B``, or anything else for a tie."""
    attempts: int = Field(2, ge=1, le=10)
    """How often the judge is asked in each order when its reply cannot be read."""
    params: dict[str, Any] = Field(default_factory=lambda: {"temperature": 0})
    """Sampling parameters of the judge; those of ``judge_models`` are put over them."""
    human_field: str | None = None
    """The field of the row that holds what a person preferred: ``answer``, ``reference`` or ``tie``, or a
    list of what several did: then what most of them say counts. Rows may lack it. The metric ``kappa`` says
    how well the judge agrees with them."""


class PairwiseVerifier:
    """Reward 1 when the answer is preferred to the reference, 0.5 for a tie, 0 when the reference is.

    Both orders are asked, and the reward is their mean. When one of them cannot be read the rollout is
    recorded without a reward (unscored) and counted by the metric ``unreadable``.
    """

    Options: ClassVar[type[BaseModel]] = PairwiseOptions

    def __init__(self, options: BaseModel, models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("PairwiseOptions", options)
        if (self.options.reference is None) == (self.options.reference_field is None):
            raise ConfigError("it needs either reference, the rows of a run, or reference_field")
        self._judge = chosen_judge(models or {}, self.options.model)
        own = {"answer_a": "the first answer", "answer_b": "the second answer"}
        self._prompt = JudgePrompt(self.options.prompt, self.options.system, own, where="prompt")
        self._pattern = safe_pattern(self.options.pattern)
        self._reference = (
            None if self.options.reference is None else ReferenceRun(Path(self.options.reference))
        )
        self.graded_with = {} if self._reference is None else {"reference_sha256": self._reference.sha256}
        self.metrics = {
            "win": MetricInfo(higher_is_better=True, low=0.0, high=1.0),
            "tie": _SHARE,
            "loss": MetricInfo(higher_is_better=False, low=0.0, high=1.0),
            "same_in_both_orders": MetricInfo(higher_is_better=True, low=0.0, high=1.0),
            "prefers_first": _SHARE,
            "unreadable": MetricInfo(higher_is_better=False, low=0.0, high=1.0),
        }
        if self.options.human_field is not None:
            self.metrics["kappa"] = MetricInfo(higher_is_better=True, low=-1.0, high=1.0)
            self.aggregate = self._agreement

    def check_row(self, row: Row) -> str | None:
        """The row needs the fields of the prompt and its reference answer."""
        if problem := self._prompt.problem(row):
            return problem
        field = self.options.reference_field
        if field is not None and not isinstance(row.get(field), str):
            return f"no '{field}', the text of the reference answer"
        human = None if self.options.human_field is None else row.get(self.options.human_field)
        for word in words_of(human):
            if not isinstance(word, str) or word not in _REWARDS:
                return f"'{self.options.human_field}' is {word!r:.40}, none of {', '.join(_REWARDS)}"
        return None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask in both orders, side by side."""
        reference = self._reference_answer(task)
        orders = await asyncio.gather(
            self._compare(task.row, episode.text, reference, first="answer"),
            self._compare(task.row, reference, episode.text, first="reference"),
        )
        preferred = [choice for choice, _ in orders]
        fields: Row = {PREFERENCES: {"in_order": preferred, "replies": [replies for _, replies in orders]}}
        answer = episode.text.strip() or None
        known = [choice for choice in preferred if choice is not None]
        if len(known) < len(preferred):
            return Verdict(None, answer, fields, {"unreadable": 1.0})
        reward = sum(_REWARDS[choice] for choice in known) / len(known)
        firsts = [known[0] == "answer", known[1] == "reference"]
        return Verdict(
            reward,
            answer,
            fields,
            {
                "win": float(reward > 0.5),
                "tie": float(reward == 0.5),
                "loss": float(reward < 0.5),
                "same_in_both_orders": float(known[0] == known[1]),
                "prefers_first": sum(firsts) / 2,
                "unreadable": 0.0,
            },
        )

    def _reference_answer(self, task: Task) -> str:
        if self._reference is None:
            return str(task.row[cast("str", self.options.reference_field)])
        found = self._reference.answer(task)
        if found is None:
            raise RolloutFailedError(
                "verifier_error", f"{self.options.reference} has no answer to this question", terminal=True
            )
        return found

    async def _compare(
        self, row: Row, a: str, b: str, *, first: Preferred
    ) -> tuple[Preferred | None, list[str]]:
        """What the judge prefers, ``None`` where no reply can be read, and its replies."""
        second: Preferred = "reference" if first == "answer" else "answer"
        messages = self._prompt.messages({**row, "answer_a": a, "answer_b": b})
        replies = []
        for _ in range(self.options.attempts):
            reply = await ask(self._judge, messages, self.options.params)
            replies.append(reply.kept)
            found = self._pattern.find(reply.text)
            if found is not None:
                choices: dict[str, Preferred] = {"A": first, "B": second}
                return choices.get(found.strip().upper(), "tie"), replies
            messages = [*messages, {"role": "assistant", "content": reply.kept or "…"}]
            messages.append({"role": "user", "content": _AGAIN})
        return None, replies

    def _agreement(self, rollouts: Iterable[GradedRollout]) -> Mapping[str, Estimate]:
        """Kappa over the rollouts whose rows have a person's preference; orders that differ are a tie."""
        pairs: list[tuple[str, str]] = []
        for rollout in rollouts:
            human = consensus(words_of(rollout.task.row.get(cast("str", self.options.human_field))))
            reward = rollout.verdict.reward
            if human is not None and reward is not None:
                judged = "answer" if reward > 0.5 else "reference" if reward < 0.5 else "tie"
                pairs.append((str(human), judged))
        kappa, error = cohens_kappa(pairs)
        return {"kappa": Estimate(kappa, error)}


class ReferenceRun:
    """The answers of another run, found by what was asked; repeats take turns."""

    def __init__(self, path: Path) -> None:
        self._answers: dict[str, dict[int, str]] = {}
        try:
            for _, line, identity in framing.read_rows(path):
                if identity is not None:
                    row = rows.decode_row(line)
                    response = row.get("response")
                    if isinstance(response, dict):
                        of_question = self._answers.setdefault(_question(row), {})
                        of_question[identity[1]] = output_text(response)
        except OSError as error:
            reason = (error.strerror or "error").lower()
            raise ConfigError(f"reference: {path} cannot be read ({reason})") from error
        if not self._answers:
            raise ConfigError(f"reference: {path} has no answers; name the rollouts.jsonl of a run")
        ordered = {question: sorted(found.items()) for question, found in sorted(self._answers.items())}
        self.sha256 = hashlib.sha256(json.dumps(ordered).encode()).hexdigest()
        """Of questions and answers; grades and the order of rows are not in it."""

    def answer(self, task: Task) -> str | None:
        """The answer to the same question, of the same repeat where there is one."""
        found = self._answers.get(_question(task.row))
        if not found:
            return None
        repeats = sorted(found)
        return found[repeats[task.rollout_index % len(repeats)]]


def _question(row: Row) -> str:
    asked = row.get("responses_create_params")
    asked = asked.get("input") if isinstance(asked, dict) else None
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
