"""Regular expressions from configs and datasets, run on any text within a limit of time.

`re` says whether a pattern is right, and what it means. The matching is done by `regex`, which can be ended.
The two differ in a few places, so a pattern is first written such that it means to `regex` what it means to
`re`: ``\\w``, ``\\b`` and ``\\s`` take the same characters, and literal text, as ``{e<=1}`` or ``[:alpha:]``,
stays that. One difference is left: where case is ignored, the Turkish dotless and dotted letters are each the
same as one of ``i`` and ``I``, not as both.
"""

from __future__ import annotations

import functools
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator

from nemo_gym.errors import ConfigError
from nemo_gym.types import RolloutFailedError
from nemo_runs.patterns import pattern as lazy_pattern

if TYPE_CHECKING:
    import regex

TEXT_LIMIT = 32_768
"""Characters of an answer that are looked at, counted from its end (from its start for the first match)."""
TIME_LIMIT = 2.0
"""Seconds of processor time for one pattern on one text; a busy machine changes nothing about them."""
MAX_PATTERN = 2_000

Which = Literal["first", "last"]

_ESCAPE = r"\\N\{[^}]*\}|\\."
_IN_A_SET = lazy_pattern(rf"{_ESCAPE}|.", re.DOTALL)
_OUTSIDE = rf"{_ESCAPE}|\(\?#[^)]*\)|\[\^?\]?|\{{\d*,?\d*\}}|."
"""An escape, a comment, the begin of a set with a bracket as first member, a repeat, or one character."""
_IN_A_ROW = lazy_pattern(_OUTSIDE, re.DOTALL)
_WITH_COMMENTS = lazy_pattern(rf"#[^\n]*|{_OUTSIDE}", re.DOTALL)

# Members of sets. The complements are listed too: a set cannot hold another one.
_WORD = r"\p{L}_\p{N}"
_OTHER_CONNECTORS = r"\u203f\u2040\u2054\ufe33\ufe34\ufe4d-\ufe4f\uff3f"
_NO_WORD = rf"\p{{M}}{_OTHER_CONNECTORS}\p{{Pd}}\p{{Ps}}\p{{Pe}}\p{{Pi}}\p{{Pf}}\p{{Po}}\p{{S}}\p{{Z}}\p{{C}}"
_SPACE = r"\s\x1c-\x1f"
_NO_SPACE = r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\p{Cs}\p{Cn}\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
_IN_SET = {r"\w": _WORD, r"\W": _NO_WORD, r"\s": _SPACE, r"\S": _NO_SPACE, "[": r"\["}
_ALONE = {
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\s": f"[{_SPACE}]",
    r"\S": f"[^{_SPACE}]",
    "{": r"\{",
    r"\b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    r"\B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
}
_ASCII_ALONE, _ASCII_IN_SET = {"{": r"\{"}, {"[": r"\["}


class PatternTimeoutError(RolloutFailedError):
    """A pattern took longer than its time on one text, so nobody knows what it would have found."""

    def __init__(self, pattern: str) -> None:
        shown = pattern if len(pattern) <= 100 else f"{pattern[:97]}…"
        super().__init__(
            "verifier_error",
            f"the pattern '{shown}' took more than {TIME_LIMIT:g} s of processor time on one text; write it "
            "such that it can match in one way only, without a repeat inside a repeat",
        )


@dataclass(frozen=True, slots=True)
class SafePattern:
    """A compiled pattern that ends within `TIME_LIMIT` on any text."""

    source: str
    """As it was given."""
    compiled: regex.Pattern[str]

    def find(self, text: str, which: Which = "last") -> str | None:
        """Group 1 (the whole match without one) of the first or last match in `TEXT_LIMIT` characters.

        Raises `PatternTimeoutError`.
        """
        try:
            found = self._first(text) if which == "first" else self._last(text)
        except TimeoutError:
            raise PatternTimeoutError(self.source) from None
        if found is None:
            return None
        return found.group(1) if self.compiled.groups else found.group(0)

    def _first(self, text: str) -> regex.Match[str] | None:
        return self.compiled.search(text[:TEXT_LIMIT], timeout=TIME_LIMIT)

    def _last(self, text: str) -> regex.Match[str] | None:
        found = None
        for found in self.compiled.finditer(text[-TEXT_LIMIT:], timeout=TIME_LIMIT):  # noqa: B007 - the last
            pass
        return found


@functools.lru_cache(maxsize=512)
def safe_pattern(pattern: str, *, ignore_case: bool = False) -> SafePattern:
    """Compile ``pattern``. Raises `ConfigError` (a phrase, no place in it) when it is wrong or too long."""
    import regex  # most runs have no pattern

    if len(pattern) > MAX_PATTERN:
        raise ConfigError(f"the pattern has {len(pattern)} characters, at most {MAX_PATTERN} are allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of meanings that `re` may have one day
            flags = re.compile(pattern, re.IGNORECASE if ignore_case else 0).flags
        text = _written_out(pattern, re.RegexFlag(flags))
        compiled = regex.compile(text, regex.V0 | (regex.IGNORECASE if ignore_case else 0))
    except (re.error, regex.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"'{pattern}' is not a regular expression: {error}") from error
    return SafePattern(pattern, compiled)


def _usable(pattern: str) -> str:
    try:
        safe_pattern(pattern)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return pattern


PatternText = Annotated[str, AfterValidator(_usable)]
"""An option that is a regular expression: one that `safe_pattern` takes."""


def _written_out(pattern: str, flags: re.RegexFlag) -> str:
    """The pattern such that `regex` reads in it what `re` does."""
    alone, in_set = (_ALONE, _IN_SET) if not flags & re.ASCII else (_ASCII_ALONE, _ASCII_IN_SET)
    outside = _WITH_COMMENTS if flags & re.VERBOSE else _IN_A_ROW
    pieces: list[str] = []
    position, inside = 0, False
    while found := (_IN_A_SET if inside else outside).match(pattern, position):
        piece, position = found[0], found.end()
        if inside:
            inside = piece != "]"
            pieces.append(in_set.get(piece, piece))
        elif piece[0] == "[":
            inside = True
            pieces.append(piece.replace("]", r"\]"))
        else:
            pieces.append(alone.get(piece, piece))
    return "".join(pieces)
