"""The verifier for answers that can be compared: exact text, text found by a pattern, or a number."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nemo_gym.types import Episode, Policy, Row, Task, Verdict
from nemo_gym.verifiers.patterns import PatternText, PatternTimeoutError, Which, safe_pattern
from nemo_gym.verifiers.wording import shortened

if TYPE_CHECKING:
    from nemo_gym.verifiers.numbers import Number

_NO_ANSWERS = ("responses_create_params", "agent_ref", "task_source")
"""Keys of rows that never hold the right answer."""
_PLAIN = re.compile(r"-?[0-9]{1,15}").fullmatch


class MatchOptions(BaseModel):
    """Options of the match verifier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["exact", "regex", "numeric"] = "exact"
    """``exact``: the whole text; ``regex``: what ``pattern`` finds in it; ``numeric``: a number in it."""
    answer_field: str = "expected_answer"
    """The field of the row that holds the right answer, or a list of right answers."""
    answer_pattern: PatternText | None = None
    """Regular expression for a field that holds more than the answer, as GSM8K's solutions that end in
    ``#### 18``: ``"#### *(.*)"``; its last match (its first
    group, or the whole match without a group) is the right answer."""
    pattern: PatternText | None = None
    """Regular expression; its first group, or the whole match without a group, is the answer. Needed for
    ``regex``; for ``numeric`` the number is looked for within what it finds."""
    which: Which = "last"
    """``first`` or ``last``: which match, and which number of a text with several, is the answer."""
    ignore_case: bool = False
    """Applies to the pattern and to comparing text."""
    strip: bool = True
    """Leave out white space around both texts before they are compared."""
    abs_tolerance: float = Field(0.0, ge=0, allow_inf_nan=False)
    """``numeric``: numbers may differ by this much, or …"""
    rel_tolerance: float = Field(0.0, ge=0, lt=1, allow_inf_nan=False)
    """… by this share of the right answer, whichever allows more."""

    @model_validator(mode="after")
    def _fits_mode(self) -> Self:
        if self.mode == "regex" and self.pattern is None:
            raise ValueError("mode regex needs a pattern")
        if self.mode == "exact" and self.pattern is not None:
            raise ValueError("a pattern is for the modes regex and numeric")
        if self.mode != "numeric" and (self.abs_tolerance or self.rel_tolerance):
            raise ValueError("a tolerance is for the mode numeric")
        return self


class MatchVerifier:
    """Reward 1 when the answer is (one of) the expected, else 0."""

    Options: ClassVar[type[BaseModel]] = MatchOptions

    def __init__(self, options: BaseModel, _models: dict[str, Policy] | None = None) -> None:
        self.options = cast("MatchOptions", options)
        pattern = self.options.pattern
        self._pattern = (
            None if pattern is None else safe_pattern(pattern, ignore_case=self.options.ignore_case)
        )
        named = self.options.answer_pattern
        self._answer_pattern = (
            None if named is None else safe_pattern(named, ignore_case=self.options.ignore_case)
        )
        self._abs = Fraction(repr(self.options.abs_tolerance))
        self._rel = Fraction(repr(self.options.rel_tolerance))
        self._tolerant = bool(self._abs or self._rel)
        self.grades_at_once = pattern is None and named is None  # somebody else's may take its time

    def check_row(self, row: Row) -> str | None:
        """The row needs an expected answer; for ``numeric`` it must be a number."""
        try:
            return self._problem(row)
        except PatternTimeoutError as error:
            return f"'{self.options.answer_field}' could not be read with answer_pattern: {error}"

    def _problem(self, row: Row) -> str | None:
        from nemo_gym.verifiers.numbers import read_number  # its patterns take long to compile

        field = self.options.answer_field
        if row.get(field) is None or row[field] == []:
            return self._lacks(row)
        numeric = self.options.mode == "numeric"
        for answer in _alternatives(row[field]):
            if (isinstance(answer, bool) and numeric) or not isinstance(answer, str | int | float):
                return f"'{field}' is neither text nor a number: {shortened(answer)}"
            known = self._within(answer)
            if known is None:
                return f"'{field}' has nothing that answer_pattern finds: {shortened(answer)}"
            if numeric and not _is_plain(known) and read_number(known) is None:
                return f"'{field}' is not one number: {shortened(known)}{self._hint(known)}"
        if not numeric and not any(str(known).strip() for known in self._right_answers(row[field])):
            return f"'{field}' is empty, so no answer could be right"
        return None

    def _lacks(self, row: Row) -> str:
        field = self.options.answer_field
        if field in row:
            return f"no '{field}': it is {'null' if row[field] is None else 'an empty list'}"
        others = ", ".join([key for key in row if key not in _NO_ANSWERS][:8])
        return f"no '{field}'" + (f"; answer_field names the field, one of {others}" if others else "")

    def _hint(self, known: Any) -> str:
        """What helps Where a whole solution is given in place of the answer."""
        if self.options.answer_pattern is None and isinstance(known, str) and "####" in known:
            return "; answer_pattern '#### *(.*)' takes the answer out of it"
        return ""

    def _within(self, answer: Any) -> Any:
        """What of one value of the field is the answer; ``None`` where ``answer_pattern`` finds nothing."""
        if self._answer_pattern is None or not isinstance(answer, str):
            return answer
        return self._answer_pattern.find(answer)

    def _right_answers(self, expected: Any) -> list[Any]:
        found = [self._within(answer) for answer in _alternatives(expected)]
        return [answer for answer in found if answer is not None]

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the answer's text with the row's expected answer."""
        return self.grade(episode.text, task.row[self.options.answer_field])

    def grade(self, text: str, expected: Any) -> Verdict:
        """Compare one text with one expected answer (or a list of them)."""
        found = self._extract(text)
        if found is None:
            return Verdict(0.0)
        if self.options.mode != "numeric":
            given = self._plain(found)
            answers = self._right_answers(expected)
            right = any(self._plain(text) == given for answer in answers for text in _texts(answer))
            return Verdict(float(right), extracted_answer=found)
        from nemo_gym.verifiers.numbers import pick_number, read_number

        number = pick_number(found, self.options.which)
        if number is None:
            return Verdict(0.0)
        right = any(self._near(number, read_number(answer)) for answer in self._right_answers(expected))
        return Verdict(float(right), extracted_answer=number.text)

    def _extract(self, text: str) -> str | None:
        found = text if self._pattern is None else self._pattern.find(text, self.options.which)
        if found is None or not found.strip():
            return None
        return found.strip() if self.options.strip else found

    def _plain(self, text: str) -> str:
        text = text.strip() if self.options.strip else text
        if not text.isascii():  # the same letters can be written in two ways, with accents apart or not
            text = unicodedata.normalize("NFC", text)
        return text.casefold() if self.options.ignore_case else text

    def _near(self, number: Number, expected: Number | None) -> bool:
        if expected is None:
            return False
        readings, accepted = number.readings, expected.accepted
        if not self._tolerant:
            return any(reading in accepted for reading in readings)
        return any(
            abs(reading - wanted) <= max(self._abs, self._rel * abs(wanted))
            for reading in readings
            for wanted in accepted
        )


def _alternatives(expected: Any) -> list[Any]:
    return expected if isinstance(expected, list) else [expected]


def _texts(answer: Any) -> list[str]:
    """How an expected answer is written; 3.0, as tables hold whole numbers beside gaps, is 3 as well.

    Truth values are also yes and no, as BoolQ is asked.
    """
    if isinstance(answer, bool):
        return ["True", "true", "Yes", "yes"] if answer else ["False", "false", "No", "no"]
    if isinstance(answer, float) and answer.is_integer():
        return [str(answer), str(int(answer))]
    return [str(answer)]


def _is_plain(answer: Any) -> bool:
    """Whether this is surely one number, so that reading it says nothing new: most answers of most data."""
    if isinstance(answer, str):
        return _PLAIN(answer) is not None
    return isinstance(answer, int) and not isinstance(answer, bool)
