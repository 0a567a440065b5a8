"""How many words of the answer and of the right one are the same: F1 as SQuAD defines it."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict

from nemo_gym.types import Episode, MetricInfo, Policy, Row, Task, Verdict
from nemo_gym.verifiers.expected import lacks_texts, right_answers

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SHARE = MetricInfo(higher_is_better=True, low=0.0, high=1.0, unseen=0.0)


class F1Options(BaseModel):
    """Options of the F1 verifier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer_field: str = "expected_answer"
    """The field of the row that holds the right answer, or a list of right answers."""


class F1Verifier:
    """The reward is the F1 of the words, against the right answer that fits best.

    Words are compared as the evaluation script of SQuAD 1.1 does it: in small letters, without punctuation
    and articles. ``exact_match`` is 1 where nothing differs then.
    """

    Options: ClassVar[type[BaseModel]] = F1Options
    metrics: ClassVar[Mapping[str, MetricInfo]] = {"exact_match": _SHARE}
    grades_at_once = True

    def __init__(self, options: BaseModel, _models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("F1Options", options)

    def check_row(self, row: Row) -> str | None:
        """The row needs right answers that are texts."""
        return lacks_texts(row, self.options.answer_field)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare with each right answer and take the best."""
        answer = normalized(episode.text)
        right = [normalized(str(one)) for one in right_answers(task.row, self.options.answer_field)]
        return Verdict(
            max(f1(answer, one) for one in right),
            answer or None,
            metrics={"exact_match": float(answer in right)},
        )


def normalized(text: str) -> str:
    """In small letters, without punctuation and articles, one space between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def f1(answer: str, right: str) -> float:
    """The harmonic mean of precision and recall over the words of two normalized texts."""
    words, wanted = answer.split(), right.split()
    same = sum((Counter(words) & Counter(wanted)).values())
    if not same:
        return 0.0
    precision, recall = same / len(words), same / len(wanted)
    return 2 * precision * recall / (precision + recall)
