"""What a command has written, read by the mapping of its benchmark."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.command_benchmark.options import ResultsMapping
from nemo_gym.dotted_paths import at_path
from nemo_gym.errors import DataError
from nemo_gym.types import Row, token_count
from nemo_runs import json_lines

WHOLE = "all"
"""The name of the one question where a command says a score and no samples."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer of the model, as the command recorded it."""

    grade: Any
    answer: str = ""
    error: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, and the samples of it in their order."""

    row: Row
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CommandResults:
    """Everything that was read, in the order of the questions' names."""

    questions: list[Question]
    score: float | None
    """The command's own score as a reward."""

    @property
    def repeats(self) -> int:
        """The most samples that a question has."""
        return max(len(question.samples) for question in self.questions)


def read_results(folder: Path, mapping: ResultsMapping) -> CommandResults:
    """Read what is in an outputs folder. `DataError` for a file that is missing or holds something else."""
    path = newest(folder, mapping.path)
    if path is None:
        raise DataError(
            f"{folder}: the command ended well and left no {mapping.path} (benchmark.command.results.path)."
        )
    content = _read(path)
    score = _score(content, mapping, path)
    if mapping.samples is None:
        said = at_path(content, str(mapping.score), None)
        only = Question({"id": WHOLE, **_asked("all questions of the command")}, [Sample(said)])
        return CommandResults([only], score)
    found = at_path(content, mapping.samples, None) if mapping.samples else content
    if not isinstance(found, list) or not found or not all(isinstance(one, Mapping) for one in found):
        raise DataError(
            f"{path}: benchmark.command.results.samples: there is no list of samples at "
            f"'{mapping.samples or 'the top'}'."
        )
    questions: dict[str, Question] = {}
    for number, sample in enumerate(found):
        name = at_path(sample, mapping.id, number)
        key = json.dumps(name, sort_keys=True, default=str)
        row = _row(sample, mapping, name)
        question = questions.setdefault(key, Question(row))
        if question.row != row:
            raise DataError(
                f"{path}: sample {number}: another one is named {name!r} and asks something else."
            )
        question.samples.append(_sample(sample, mapping, f"{path}: sample {number}"))
    return CommandResults([questions[key] for key in sorted(questions, key=_natural)], score)


def newest(folder: Path, pattern: str) -> Path | None:
    """The file of a pattern that was written last."""
    found = [path for path in folder.glob(pattern) if path.is_file()]
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def reward_of(grade: Any, mapping: ResultsMapping) -> float | None:
    """A grade as a reward; ``None`` for null. `DataError` with a phrase for what is none."""
    if grade is None:
        return None
    if isinstance(grade, str) and grade in mapping.values:
        return mapping.values[grade]
    number = _number(grade)
    if number is not None:
        reward = number / mapping.best
        if 0 <= reward <= 1:
            return reward
        raise DataError(f"the grade {grade!r:.60} is not from 0 to {mapping.best:g} (results.best)")
    known = ", ".join(mapping.values) or "none"
    raise DataError(f"the grade {grade!r:.60} is not a number, and results.values has {known}")


def _score(content: Any, mapping: ResultsMapping, path: Path) -> float | None:
    if mapping.score is None:
        return None
    where = f"{path}: benchmark.command.results.score"
    found = at_path(content, mapping.score, None)
    if found is None:
        raise DataError(f"{where}: there is nothing at '{mapping.score}'.")
    try:
        return reward_of(found, mapping)
    except DataError as error:
        raise DataError(f"{where}: {error}.") from None


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".jsonl":
            lines = path.read_bytes().splitlines()
            return [json_lines.parse_row(line, at) for at, line in enumerate(lines, 1) if line.strip()]
        return json.loads(path.read_text(encoding="utf-8"))
    except json_lines.NotJsonLinesError as error:
        raise DataError(f"{path}:{error.line}: {error}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: it cannot be read as JSON ({str(error).rstrip('.')}).") from None


def _row(sample: Mapping[str, Any], mapping: ResultsMapping, name: Any) -> Row:
    asked = None if mapping.input is None else at_path(sample, mapping.input, None)
    row = {"id": name, **_asked(asked if asked else f"sample {name}")}
    expected = None if mapping.expected is None else at_path(sample, mapping.expected, None)
    return row if expected is None else {**row, "expected_answer": expected}


def _asked(value: Any) -> Row:
    messages = isinstance(value, list) and all(isinstance(one, Mapping) and "role" in one for one in value)
    if messages:
        value = [{"role": one["role"], "content": _text(one.get("content"))} for one in value]
    return {"responses_create_params": {"input": value if messages else _text(value)}}


def _sample(sample: Mapping[str, Any], mapping: ResultsMapping, where: str) -> Sample:
    def of(place: str | None) -> Any:
        return None if place is None else at_path(sample, place, None)

    error = of(mapping.error)
    grade = of(mapping.reward)
    if error is None:
        try:
            reward_of(grade, mapping)
        except DataError as problem:
            raise DataError(f"{where}: benchmark.command.results.reward: {problem}.") from None
    metrics = {name: of(place) for name, place in mapping.metrics.items()}
    return Sample(
        grade,
        _text(of(mapping.answer)),
        None if error is None else _text(error),
        token_count(of(mapping.input_tokens)),
        token_count(of(mapping.output_tokens)),
        {name: _number(value) for name, value in metrics.items()},
    )


def _number(value: Any) -> float | None:
    """A number of JSON, which may be one that no float is."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _natural(key: str) -> tuple[int, float, str]:
    """Numbers in their order, then texts: the order in which a command ends its samples is chance."""
    found = json.loads(key)
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return (0, float(found), "") if number else (1, 0.0, key)
