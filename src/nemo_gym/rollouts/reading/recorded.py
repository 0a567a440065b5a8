"""One recorded rollout as a value: what was asked, thought, answered, expected, and why it has its grade."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.manifest import OutputManifest, load_manifest
from nemo_gym.rollouts.output.result_rows import METRICS, NOT_GRADED_FIELD, VERDICT_FIELDS, Answer
from nemo_gym.rollouts.reading.located import LocatedRollouts, Place
from nemo_gym.rollouts.reading.row_facts import Outcome, outcome_of
from nemo_gym.rollouts.reading.scored_texts import ScoredText, expected_text, scored_texts, step_of
from nemo_gym.rollouts.reading.trajectory import turn_steps, turns_of
from nemo_gym.rollouts.scores.columns import source_keys
from nemo_gym.rollouts.scores.summary import ENDS
from nemo_gym.types import (
    CONVERSATION,
    Row,
    answer_end,
    conversation_of_rollout,
    output_text,
    reasoning_text,
)
from nemo_runs.sizes import size_in_words

EXPECTED_FIELD = "expected_answer"
"""The field of a row that holds the expected answer, unless the verifier's ``answer_field`` names another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """One attempt that gave no result."""

    failure_class: str
    kind: str
    message: str
    http_status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRollout:
    """One rollout, as its files have it."""

    task: int
    """Number of the row in the data set, from 0."""
    repeat: int
    outcome: Outcome
    reward: float | None
    expected: str | None
    """The row's expected answer as text; ``None`` where the row names none."""
    extracted: str | None
    """What was understood as the answer."""
    reason: str
    """Why it has this grade, or none."""
    prompt: list[dict[str, str]] = field(default_factory=list)
    """The messages that were sent: ``role`` and ``content`` as text."""
    thoughts: str = ""
    answer: str = ""
    steps: list[dict[str, str]] = field(default_factory=list)
    """Tool calls and their results, of all turns where the agent made them; each ``kind`` and ``content``."""
    turns: list[Mapping[str, Any]] = field(default_factory=list)
    """The same as it is recorded, an entry for each turn; empty where the agent called no tools."""
    likelihoods: list[ScoredText] = field(default_factory=list)
    """The texts that were scored, where the model was asked how likely texts are; empty for others."""
    end: str | None = None
    """How the answer ended (`nemo_gym.types.AnswerEnd`)."""
    verdict: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the verifier."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """The verifier's further metrics of this rollout by name."""
    perf: Mapping[str, Any] = field(default_factory=dict)
    """Turns, tokens, latency in ms."""
    failures: list[FailedAttempt] = field(default_factory=list)
    row: Row = field(default_factory=dict)
    """The row of the data set, as it was materialized."""

    @property
    def answer_shown(self) -> str:
        """The answer as people read it; words in brackets where it has no text."""
        if self.likelihoods and not self.answer:
            return "(none: the model was asked how likely texts are)"
        return self.answer or "(empty)"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


class RolloutReader:
    """Reads recorded rollouts of one output."""

    def __init__(self, located: LocatedRollouts) -> None:
        self._located = located
        self.manifest: OutputManifest | None = load_manifest(located.paths.manifest)
        self._expected_field = expected_field(self.manifest)
        self._source = source_keys(located.paths)

    @property
    def paths(self) -> RolloutPaths:
        """The files that are read."""
        return self._located.paths

    def read(self, places: list[Place]) -> Iterator[RecordedRollout]:
        """The rollouts at some places, in that order."""
        without = [
            place
            for place in places
            if place not in self._located.results and place not in self._located.answers
        ]
        planned = self._located.planned(without)
        for place in places:
            failures = [_failed_attempt(row) for row in self._located.failed_attempts(place)]
            result = self._located.result(place)
            answer = self._located.answer(place) if result is None else None
            if result is not None:
                yield self._graded(place, result, failures)
            elif answer is not None:
                yield self._of_answer(
                    place, answer, failures, "not graded yet", "its answer has no grade yet"
                )
            else:
                yield self._failed(place, planned.get(place, {}), failures)

    def _graded(self, place: Place, row: Row, failures: list[FailedAttempt]) -> RecordedRollout:
        reward = row.get("reward")
        number = float(reward) if isinstance(reward, int | float) else None
        outcome = outcome_of(number, masked=row.get("mask_sample") is True)
        return self._of_answer(place, row, failures, outcome, None, number)

    def _of_answer(
        self,
        place: Place,
        row: Row,
        failures: list[FailedAttempt],
        outcome: Outcome,
        reason: str | None,
        reward: float | None = None,
    ) -> RecordedRollout:
        found = Answer.of_row(row, source=self._source)
        turns = turns_of(found.agent)
        expected = self._expected(found.task)
        scored = scored_texts(found.task, found.agent)
        extracted = as_text(row.get("extracted_answer"))
        return RecordedRollout(
            task=place[0],
            repeat=place[1],
            outcome=outcome,
            reward=reward,
            expected=expected,
            extracted=extracted,
            reason=_reason(row, outcome, expected, extracted) if reason is None else reason,
            prompt=_before_the_answer(found),
            thoughts=reasoning_text(found.response),
            answer=output_text(found.response),
            steps=[
                *(turn_steps(turns) if turns else _steps(found.response)),
                *([step_of(scored)] if scored else []),
            ],
            turns=turns,
            likelihoods=scored,
            end=answer_end(found.response),
            verdict={
                name: row.get(name) for name in row.get(VERDICT_FIELDS) or () if row.get(name) not in ({}, [])
            },
            metrics=row.get(METRICS) or {},
            perf=found.perf,
            failures=failures,
            row=found.task,
        )

    def _expected(self, row: Row) -> str | None:
        found = as_text(row.get(self._expected_field))
        return expected_text(row) if found is None else found

    def _failed(self, place: Place, row: Row, failures: list[FailedAttempt]) -> RecordedRollout:
        own = {key: value for key, value in row.items() if not key.startswith("_ng_")}
        last = failures[-1] if failures else None
        return RecordedRollout(
            task=place[0],
            repeat=place[1],
            outcome="failed",
            reward=None,
            expected=self._expected(own),
            extracted=None,
            reason="" if last is None else f"{last.failure_class}: {last.message}",
            prompt=prompt_messages(own),
            failures=failures,
            row=own,
        )


def expected_field(manifest: OutputManifest | None) -> str:
    """The field of a row that holds the expected answer, as the verifier's options name it."""
    benchmark = manifest.scoring.get("benchmark") if manifest is not None else None
    verifier = benchmark.get("verifier") if isinstance(benchmark, Mapping) else None
    named = verifier.get("answer_field") if isinstance(verifier, Mapping) else None
    return named if isinstance(named, str) else EXPECTED_FIELD


def _before_the_answer(found: Answer) -> list[dict[str, str]]:
    """All that was said before the last answer: of several turns the earlier answers too.

    Where turns have calls between them, the turns are steps.
    """
    if CONVERSATION not in found.agent or turns_of(found.agent):
        return prompt_messages(found.task)
    return conversation_of_rollout(found.to_task(0, 0), found.to_episode())[:-1]


def prompt_messages(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """The messages of a materialized row, ``role`` and ``content`` as text; parts without text are named."""
    params = row.get("responses_create_params")
    params = params if isinstance(params, Mapping) else {}
    found = []
    if isinstance(params.get("instructions"), str):
        found.append({"role": "system", "content": params["instructions"]})
    asked = params.get("input")
    if isinstance(asked, str):
        return [*found, {"role": "user", "content": asked}]
    for item in asked if isinstance(asked, list) else ():
        if isinstance(item, Mapping):
            role = item.get("role") or item.get("type") or "item"
            text = _content(item.get("content")) if "content" in item else as_text(dict(item))
            found.append({"role": str(role), "content": text or ""})
    return found


def as_text(value: Any) -> str | None:
    """Text as it is, ``None`` for null, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _content(content: Any) -> str:
    if not isinstance(content, list):
        return as_text(content) or ""
    return "".join(_part(part) for part in content)


def _part(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    if isinstance(text, str):
        return text
    if not isinstance(part, Mapping):
        return str(part)
    image = part.get("image_url")
    image = image.get("url") if isinstance(image, Mapping) else image
    return f"[image: {_image(image)}]\n" if isinstance(image, str) else f"[{part.get('type', 'part')}]"


def _image(address: str) -> str:
    """An image in words: where it is, or of which kind and size."""
    head, is_whole, data = address.partition(";base64,")
    if not is_whole:
        return shortened(address, 200)
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"{head.removeprefix('data:')}, {size_in_words(size)}"


def _steps(response: Mapping[str, Any]) -> list[dict[str, str]]:
    output = response.get("output")
    found: Iterable[Any] = output if isinstance(output, list) else ()
    return [
        {"kind": str(item.get("type")), "content": as_text(_without_type(item)) or ""}
        for item in found
        if isinstance(item, Mapping) and item.get("type") not in ("message", "reasoning")
    ]


def _without_type(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "type"}


def _failed_attempt(row: Row) -> FailedAttempt:
    status = row.get("_ng_failure_http_status")
    return FailedAttempt(
        failure_class=str(row.get("_ng_failure_class")),
        kind=str(row.get("_ng_failure_type") or ""),
        message=str(row.get("_ng_failure_message") or ""),
        http_status=status if isinstance(status, int) else None,
    )


def _reason(row: Row, outcome: Outcome, expected: str | None, extracted: str | None) -> str:
    if not_graded := row.get(NOT_GRADED_FIELD):
        return f"not graded: {ENDS.get(not_graded, not_graded)}"
    if outcome == "masked":
        return "left out of the score by its agent or its verifier"
    if outcome == "not scored":
        return "its verifier gave no number"
    if "extracted_answer" not in row:
        return ""
    if extracted is None:
        return "no answer could be understood"
    against = "" if expected is None else f", expected {shortened(expected)}"
    return f"understood as {shortened(extracted)}{against}"


def shortened(text: str, most: int = 80) -> str:
    """The text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
