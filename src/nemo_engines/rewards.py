"""GRPO's rewards: the prompt and the verifier of a gym benchmark, so that what is trained is what is
evaluated."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_engines.data.messages import check_messages
from nemo_engines.data.rows import Row, Shape
from nemo_engines.errors import BadSpecError, TrainerError
from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.run_config.fields import row_mapper
from nemo_gym.rollouts.run_config.prompts import CannotFillError, Template, template
from nemo_gym.rollouts.scores.whole_answers import WholeAnswers, text_answer
from nemo_gym.types import ANSWER_ENDS, Episode, Task, Verifier
from nemo_gym.verifiers.registry import load_verifier

_OF_NO_EFFECT = frozenset({"input", "metadata", "user", "store"})
ROW = "benchmark_row"
"""Column of the training data that holds the row as the benchmark has it, as JSON text."""


class Rewards:
    """Makes prompts of a benchmark's rows, and grades answers to them."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        benchmark = config.get("benchmark", config)
        if not isinstance(benchmark, Mapping) or not isinstance(benchmark.get("verifier"), Mapping):
            raise BadSpecError("rewards must be the config of a benchmark: it has no 'verifier'")
        try:
            verifier = load_verifier(benchmark["verifier"], where="rewards.verifier")
        except ConfigError as error:
            raise BadSpecError(str(error)) from error
        reasoning = bool(benchmark.get("grade_reasoning"))
        self._verifier: Verifier = WholeAnswers(verifier, _ends(benchmark), reasoning=reasoning)
        self._templates = _templates(benchmark.get("prompt"))
        self._mapped = row_mapper(benchmark.get("fields"), benchmark.get("choices"))

    @property
    def shape(self) -> Shape:
        """Checks a row of the benchmark, and makes of it the prompt to answer."""
        return self._shape

    def _shape(self, row: Row) -> Row:
        try:
            row = self._mapped(row)
        except DataError as error:
            raise ValueError(str(error)) from None
        try:
            problem = self._verifier.check_row(row)
        except Exception as error:
            raise ValueError(f"the verifier cannot check it: {type(error).__name__}: {error}") from error
        if problem is not None:
            raise ValueError(problem)
        _check_parameters(row.get("responses_create_params"))
        return {"prompt": self._messages(row), ROW: json.dumps(row, ensure_ascii=False)}

    def _messages(self, row: Row) -> list[Row]:
        if self._templates is None:
            asked = row.get("responses_create_params")
            own = asked.get("input") if isinstance(asked, dict) else None
            if isinstance(own, str) and own:
                return [{"role": "user", "content": own}]
            if isinstance(own, list) and own:
                return check_messages(own, "responses_create_params.input")
            raise ValueError("lacks responses_create_params.input, and the benchmark has no prompt")
        try:
            return [{"role": role, "content": made.fill(row)} for role, made in self._templates]
        except CannotFillError as error:
            raise ValueError(str(error)) from None

    def grade(self, rows: Sequence[str], answers: Sequence[str], *, cut: Sequence[bool]) -> list[float]:
        """The reward of each answer; ``rows`` as in the column `ROW`, ``cut`` where the token limit ended
        it."""
        return asyncio.run(self._grade(rows, answers, cut))

    async def _grade(self, rows: Sequence[str], answers: Sequence[str], cut: Sequence[bool]) -> list[float]:
        calls = [
            self._reward(Task(index, 0, json.loads(row)), answer, cut=shortened)
            for index, (row, answer, shortened) in enumerate(zip(rows, answers, cut, strict=True))
        ]
        return list(await asyncio.gather(*calls))

    async def _reward(self, task: Task, answer: str, *, cut: bool) -> float:
        """A verifier is code of others: whatever it does wrong is one sentence that names it."""
        try:
            reward = (await self._verifier.verify(task, Episode(text_answer(answer, cut=cut)))).reward
            reward = float(math.nan if reward is None else reward)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise TrainerError(
                f"the benchmark's verifier failed on the answer {answer[:80]!r}: {said}"
            ) from error
        if not math.isfinite(reward):
            raise TrainerError(
                f"the benchmark's verifier gave the answer {answer[:80]!r} the reward {reward}"
            )
        return reward


def _check_parameters(asked: object) -> None:
    """What a row says about its own request is not supported: all answers of a step are made alike."""
    for name, value in asked.items() if isinstance(asked, dict) else ():
        if name not in _OF_NO_EFFECT and value not in (None, [], {}):
            raise ValueError(f"'responses_create_params.{name}' is not supported in training; leave it out")


def _ends(benchmark: Mapping[str, Any]) -> list[str]:
    """The ends besides a good one whose answers the benchmark grades."""
    ends = benchmark.get("graded_ends") or []
    if not isinstance(ends, list) or not set(ends) <= set(ANSWER_ENDS):
        raise BadSpecError(f"rewards.graded_ends must be a list of {', '.join(ANSWER_ENDS)}")
    return ends


def _templates(prompt: Any) -> list[tuple[str, Template]] | None:
    if prompt is None:
        return None
    if isinstance(prompt, Mapping):
        for name in ("conversation", "examples", "images", "tools"):
            if prompt.get(name) is not None:
                raise BadSpecError(f"rewards.prompt.{name} is not supported in training; leave it out")
    if not isinstance(prompt, Mapping) or not isinstance(prompt.get("user"), str):
        raise BadSpecError("rewards.prompt.user must be a text")
    try:
        syntax = prompt.get("syntax")
        roles = [role for role in ("system", "user") if prompt.get(role)]
        return [(role, template(prompt[role], syntax)) for role in roles]
    except ValueError as error:
        raise BadSpecError(f"rewards.prompt cannot be used: {error}") from error
