"""The verifier of multiple-choice benchmarks: four ways of understanding which letter was chosen."""

from __future__ import annotations

from typing import Any, ClassVar, cast, get_args

from pydantic import BaseModel, ConfigDict

from nemo_gym.errors import ConfigError
from nemo_gym.types import Episode, Policy, Row, Task, Verdict
from nemo_gym.verifiers.choices import Choices, GradingMode, choices_of, chosen, letter_of_text
from nemo_gym.verifiers.patterns import safe_pattern
from nemo_gym.verifiers.wording import shortened

DEFAULT_MODE: GradingMode = "strict_single_letter_boxed"
_LIKE = 'a list like [{"A": "…"}, {"B": "…"}]'


class MultipleChoiceOptions(BaseModel):
    """Options of the multiple-choice verifier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    grading_mode: GradingMode | None = None
    """One of the modes below; null: the row's own ``grading_mode``, else ``strict_single_letter_boxed``."""


class MultipleChoiceVerifier:
    """Reward 1 when the chosen letter is the row's ``expected_answer``, else 0.

    A row's ``template_metadata.output_regex`` (a pattern or a list of them, any case, last match, first
    pattern that yields something) goes before the mode; a letter that it finds is trusted even if it is not
    an option.
    """

    Options: ClassVar[type[BaseModel]] = MultipleChoiceOptions

    def __init__(self, options: BaseModel, _models: dict[str, Policy] | None = None) -> None:
        self.options = cast("MultipleChoiceOptions", options)

    def check_row(self, row: Row) -> str | None:
        """The row needs options, an expected letter among them, and whatever else it names must be usable."""
        options = row.get("options")
        choices = choices_of(options)
        patterns = _patterns(row)
        if not patterns and (problem := _wrong_options(options, choices)):
            return problem
        expected = row.get("expected_answer")
        if expected is None:
            return "no 'expected_answer' (a letter)"
        if not isinstance(expected, str) or not expected.strip():
            return f"'expected_answer' is {expected!r}, not the letter of an option"
        if not patterns and expected.strip().upper() not in choices:
            return f"'expected_answer' {expected!r} is not one of the options {', '.join(choices)}"
        mode = row.get("grading_mode")
        if mode is not None and mode not in get_args(GradingMode):
            return f"'grading_mode' {mode!r} is not one of {', '.join(get_args(GradingMode))}"
        return _unusable(patterns)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Find the chosen letter in the answer's text."""
        return self.grade(episode.text, task.row)

    def grade(self, text: str, row: Row) -> Verdict:
        """Find the chosen letter in one text."""
        if not text.strip():
            return Verdict(0.0)
        choices = choices_of(row.get("options"))
        letter = _by_pattern(text, _patterns(row), choices)
        if letter is None:
            mode = self.options.grading_mode or row.get("grading_mode") or DEFAULT_MODE
            letter = chosen(mode, text, choices, row.get("answer_prefix"))
        if letter is None:
            return Verdict(0.0)
        return Verdict(float(letter == row["expected_answer"].strip().upper()), extracted_answer=letter)


def _wrong_options(options: Any, choices: Choices) -> str | None:
    """What is wrong with a row's options; one that is labelled otherwise could never be found chosen."""
    if options is None or options in ([], {}):
        return f"no 'options' ({_LIKE}); benchmark.choices makes them of other fields"
    entries = options if isinstance(options, list) else [options]
    if not choices or not all(isinstance(entry, dict) for entry in entries):
        return f"'options' is not {_LIKE} but {shortened(options)}; benchmark.choices makes that of it"
    letters = [str(label).strip().upper() for entry in entries for label in entry]
    for letter in letters:
        if len(letter) != 1 or not "A" <= letter <= "Z":
            return f"'options' has the label {letter!r}, which is not one of the letters A to Z ({_LIKE})"
    double = next((letter for letter in letters if letters.count(letter) > 1), None)
    return None if double is None else f"'options' has the letter {double} twice"


def _patterns(row: Row) -> list[Any]:
    metadata = row.get("template_metadata")
    found = metadata.get("output_regex") if isinstance(metadata, dict) else None
    if not found:
        return []
    return found if isinstance(found, list) else [found]


def _unusable(patterns: list[Any]) -> str | None:
    for pattern in patterns:
        if not isinstance(pattern, str):
            return f"'template_metadata.output_regex' holds {pattern!r}, which is not text"
        try:
            safe_pattern(pattern, ignore_case=True)
        except ConfigError as error:
            return f"'template_metadata.output_regex': {error}"
    return None


def _by_pattern(text: str, patterns: list[Any], choices: Choices) -> str | None:
    for pattern in patterns:
        found = (safe_pattern(pattern, ignore_case=True).find(text) or "").strip()
        if len(found) == 1 and found.isalpha():
            return found.upper()
        letter = letter_of_text(found, choices)
        if letter is not None:
            return letter
    return None
