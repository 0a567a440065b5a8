"""Several verifiers for the same answers, one of which gives the score."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nemo_gym.types import Episode, Estimate, GradedRollout, MetricInfo, Policy, Row, Task, Verdict, Verifier
from nemo_gym.verifiers.registry import (
    close_verifier,
    declared_metrics,
    graded_with,
    grades_at_once,
    grades_stored_answers,
    load_verifier,
    start_verifier,
)

_Values = Mapping[str, float | Estimate | None]


class SeveralOptions(BaseModel):
    """Options of the verifier that combines others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    verifiers: dict[str, dict[str, Any]] = Field(min_length=1)
    """By a name of your own, the type and the options of each verifier."""
    score: str
    """The name of the one whose reward is the score; the rewards of the others are metrics under their
    names."""

    @field_validator("verifiers")
    @classmethod
    def _named(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name in value:
            if not name or "/" in name:
                raise ValueError(f"'{name}' cannot be the name of a verifier; leave out the slash")
        return value

    @model_validator(mode="after")
    def _has_score(self) -> Self:
        if self.score not in self.verifiers:
            raise ValueError(f"score names none of the verifiers; known are {', '.join(self.verifiers)}")
        return self


class SeveralVerifier:
    """The reward of one verifier, and those of the others as metrics.

    Metrics of a verifier are called ``NAME/METRIC``. Answers whose end any of them grades are put to all.
    """

    Options: ClassVar[type[BaseModel]] = SeveralOptions

    def __init__(self, options: BaseModel, models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("SeveralOptions", options)
        self.verifiers: dict[str, Verifier] = {
            name: load_verifier(spec, models, where=f"benchmark.verifier.verifiers.{name}")
            for name, spec in self.options.verifiers.items()
        }
        everyone = self.verifiers.values()
        self.grades_at_once = all(map(grades_at_once, everyone))
        self.grades_stored_answers = all(map(grades_stored_answers, everyone))
        self.graded_ends = frozenset[str]().union(*(getattr(one, "graded_ends", ()) for one in everyone))
        self.graded_with = self._graded_with()
        self.metrics = dict(self._declared())
        self.grade_group: Callable[[Sequence[GradedRollout]], _Values] | None = None
        self.aggregate: Callable[[Iterable[GradedRollout]], _Values] | None = None
        if any(callable(getattr(one, "grade_group", None)) for one in everyone):
            self.grade_group = self._grade_group
        if any(callable(getattr(one, "aggregate", None)) for one in everyone):
            self.aggregate = self._aggregate

    def _graded_with(self) -> dict[str, str]:
        return {
            f"{name}/{key}": digest
            for name, one in self.verifiers.items()
            for key, digest in graded_with(one).items()
        }

    def start(self) -> None:
        """Let each of them start what it will need."""
        for verifier in self.verifiers.values():
            start_verifier(verifier)
        self.graded_with.update(self._graded_with())

    def close(self) -> None:
        """Let each of them end what it started."""
        for verifier in self.verifiers.values():
            close_verifier(verifier)

    def check_row(self, row: Row) -> str | None:
        """What the row lacks for the first verifier that cannot grade it."""
        for name, verifier in self.verifiers.items():
            if problem := verifier.check_row(row):
                return f"{problem.rstrip('.')} (for the verifier '{name}')"
        return None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Ask all of them, side by side."""
        verdicts = dict(
            zip(
                self.verifiers,
                await asyncio.gather(*(one.verify(task, episode) for one in self.verifiers.values())),
                strict=True,
            )
        )
        score = verdicts.pop(self.options.score)
        fields = dict(score.fields)
        metrics = {f"{self.options.score}/{name}": value for name, value in score.metrics.items()}
        for name, verdict in verdicts.items():
            fields[name] = {"extracted_answer": verdict.extracted_answer, **verdict.fields}
            metrics[name] = verdict.reward
            metrics |= {f"{name}/{metric}": value for metric, value in verdict.metrics.items()}
        return Verdict(score.reward, score.extracted_answer, fields, metrics)

    def _declared(self) -> Iterator[tuple[str, MetricInfo]]:
        for name, verifier in self.verifiers.items():
            if name != self.options.score:
                yield name, MetricInfo(higher_is_better=True, low=0.0, high=1.0, unseen=0.0)
            for metric, info in declared_metrics(verifier).items():
                yield f"{name}/{metric}", info

    def _grade_group(self, rollouts: Sequence[GradedRollout]) -> _Values:
        return self._of_each("grade_group", lambda name: [self._own(name, one) for one in rollouts])

    def _aggregate(self, rollouts: Iterable[GradedRollout]) -> _Values:
        return self._of_each("aggregate", lambda name: _Mapped(rollouts, lambda one: self._own(name, one)))

    def _of_each(self, function: str, rollouts: Callable[[str], Any]) -> _Values:
        return {
            f"{name}/{metric}": value
            for name, verifier in self.verifiers.items()
            if (called := getattr(verifier, function, None)) is not None
            for metric, value in called(rollouts(name)).items()
        }

    def _own(self, name: str, rollout: GradedRollout) -> GradedRollout:
        """The rollout with the verdict as that verifier gave it."""
        whole = rollout.verdict
        others = self.verifiers.keys() - {self.options.score}
        start = f"{name}/"
        metrics = {key.removeprefix(start): v for key, v in whole.metrics.items() if key.startswith(start)}
        if name == self.options.score:
            fields = {key: value for key, value in whole.fields.items() if key not in others}
            return replace(rollout, verdict=replace(whole, fields=fields, metrics=metrics))
        own = dict(whole.fields.get(name) or {})
        answer = own.pop("extracted_answer", None)
        return replace(rollout, verdict=Verdict(whole.metrics.get(name), answer, own, metrics))


class _Mapped(Iterable[GradedRollout]):
    """Rollouts changed one by one, each time that they are gone through."""

    def __init__(
        self, rollouts: Iterable[GradedRollout], change: Callable[[GradedRollout], GradedRollout]
    ) -> None:
        self._rollouts = rollouts
        self._change = change

    def __iter__(self) -> Iterator[GradedRollout]:
        return map(self._change, self._rollouts)
