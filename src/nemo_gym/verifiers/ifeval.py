"""Whether an answer follows the instructions of IFEval, by the checks of the package ``if-verifiable``."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.types import Episode, Estimate, GradedRollout, MetricInfo, Policy, Row, Task, Verdict
from nemo_gym.verifiers.grading_processes import GradingProcesses
from nemo_gym.verifiers.libraries import require

Level = Literal["prompt_level_strict", "prompt_level_loose", "inst_level_strict", "inst_level_loose"]
_LEVELS: dict[Level, str] = {
    "prompt_level_strict": "binary_strict",
    "prompt_level_loose": "binary_loose",
    "inst_level_strict": "partial_strict",
    "inst_level_loose": "partial_loose",
}
_NEED_SENTENCES = frozenset({"length_constraints:number_sentences", "change_case:capital_word_frequency"})
_SHARE = MetricInfo(higher_is_better=True, low=0.0, high=1.0, unseen=0.0)
FOLLOWED = "followed"
"""Field of a verdict: by instruction, whether it was followed, strictly and loosely."""


class IfevalOptions(BaseModel):
    """Options of the IFEval verifier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    score: Level = "prompt_level_strict"
    """The reward: ``prompt_level_strict``, ``prompt_level_loose`` (1 when all instructions are followed),
    ``inst_level_strict`` or ``inst_level_loose`` (the share that is followed)."""
    timeout_seconds: float = Field(60, gt=0, allow_inf_nan=False)
    """How long one answer may take."""


class IfevalVerifier:
    """The reward says whether the instructions of the row are followed.

    All four levels are metrics. Those of the instruction level are over all instructions of the run, as
    IFEval reports them.
    """

    Options: ClassVar[type[BaseModel]] = IfevalOptions
    metrics: ClassVar[Mapping[str, MetricInfo]] = dict.fromkeys(_LEVELS, _SHARE)

    def __init__(self, options: BaseModel, _models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("IfevalOptions", options)
        require("if_verifiable", "if-verifiable", "ifeval")
        self._processes = GradingProcesses(
            "nemo_gym.verifiers.ifeval:grader", {}, time_limit=self.options.timeout_seconds
        )

    def check_row(self, row: Row) -> str | None:
        """The row needs ``instruction_id_list``, known ones, ``kwargs`` for each of them, and ``prompt``."""
        names, kwargs = row.get("instruction_id_list"), row.get("kwargs")
        if not isinstance(names, list) or not names:
            return "no 'instruction_id_list', a list of instructions"
        if not isinstance(kwargs, list) or len(kwargs) != len(names):
            return "no 'kwargs', a list with an object for each instruction"
        if not isinstance(row.get("prompt"), str):
            return "no 'prompt', the text that some instructions repeat"
        for name in names:
            if name not in known_instructions():
                return f"the instruction {name!r} is not known to if-verifiable"
            if name in _NEED_SENTENCES and not _has_sentences():
                return (
                    f"the instruction {name!r} needs NLTK's data 'punkt_tab', which is not on this machine; "
                    "python -m nltk.downloader punkt_tab brings it"
                )
        return None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Check every instruction."""
        row = task.row
        found = await self._processes.call(
            answer=episode.text, prompt=row["prompt"], names=row["instruction_id_list"], kwargs=row["kwargs"]
        )
        levels = found["levels"]
        return Verdict(
            levels[self.options.score],
            episode.text.strip() or None,
            {FOLLOWED: {"strict": found["strict"], "loose": found["loose"]}},
            levels,
        )

    def aggregate(self, rollouts: Iterable[GradedRollout]) -> Mapping[str, float | Estimate | None]:
        """The instruction level over all instructions; answers that were not graded followed none."""
        total, followed = 0, {"strict": 0, "loose": 0}
        for rollout in rollouts:
            total += len(rollout.task.row["instruction_id_list"])
            of_answer = rollout.verdict.fields.get(FOLLOWED) or {}
            for how in followed:
                followed[how] += sum(of_answer.get(how, ()))
        return {f"inst_level_{how}": count / total if total else None for how, count in followed.items()}


@functools.cache
def known_instructions() -> frozenset[str]:
    """The instructions that the package can check."""
    from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT

    return frozenset(INSTRUCTION_DICT)


@functools.cache
def _has_sentences() -> bool:
    if importlib.util.find_spec("nltk") is None:
        return False
    import nltk

    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        return False
    return True


def grader() -> Callable[..., dict[str, Any]]:
    """In a grading process: which instructions an answer follows."""
    import langdetect
    from if_verifiable.common import evaluate_instructions
    from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT

    langdetect.DetectorFactory.seed = 0  # else the same text may be found to be in two languages

    def grade(
        answer: str, prompt: str, names: Sequence[str], kwargs: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        given = [dict(one or {}) for one in kwargs]
        results, scores = evaluate_instructions(answer, list(names), given, prompt, INSTRUCTION_DICT)
        none = [False] * len(names)  # an empty answer has no results
        return {
            "levels": {level: float(getattr(scores, name)) for level, name in _LEVELS.items()},
            "strict": [one.strict_pass for one in results] or none,
            "loose": [one.loose_pass for one in results] or none,
        }

    return grade
