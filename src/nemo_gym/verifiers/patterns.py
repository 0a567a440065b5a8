"""Regular expressions from configs and datasets, made safe to run on any text.

Python's matcher backtracks without a time limit, so a pattern is judged before it is used:

* repeats within repeats, and choices within repeats that may begin alike, can take exponential time: refused;
* what is left is polynomial, about ``n^(r+1) / ((r+1)! · L)`` steps for ``r`` open repeats behind a literal
  prefix of ``L`` characters on ``n`` characters of text (a bounded repeat ``{0,m}`` costs a factor ``m``
  instead). The text is cut to the ``n`` that keeps this below `STEP_BUDGET`, about a second at worst.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from nemo_gym.errors import ConfigError

TEXT_LIMIT = 32_768
"""Characters of an answer that are looked at, counted from its end (from its start for the first match)."""
STEP_BUDGET = 1e8
MAX_OPEN_REPEATS = 3
MAX_PATTERN = 2_000

Which = Literal["first", "last"]

_parser: Any = importlib.import_module("re._parser")  # the standard library's own reading of a pattern
_OPEN = int(_parser.MAXREPEAT)
_SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY"}
_GROUP_WEIGHT = 20.0
"""How much longer a step of a repeated group takes than one of a repeated character (measured)."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Open repeats, and the product of the sizes of bounded ones."""

    repeats: int = 0
    factor: float = 1.0

    def then(self, other: _Cost) -> _Cost:
        return _Cost(self.repeats + other.repeats, self.factor * other.factor)

    def either(self, other: _Cost) -> _Cost:
        return _Cost(max(self.repeats, other.repeats), max(self.factor, other.factor))


@dataclass(frozen=True, slots=True)
class SafePattern:
    """A compiled pattern and the length of text it may be run on."""

    regex: re.Pattern[str]
    limit: int
    """Characters."""

    def find(self, text: str, which: Which = "last") -> str | None:
        """Group 1 (the whole match without one) of the first or last match in the text within bounds."""
        if which == "first":
            found = self.regex.search(text[: self.limit])
        else:
            found = None
            for found in self.regex.finditer(text[-self.limit :]):  # noqa: B007 - the last one is wanted
                pass
        if found is None:
            return None
        return found.group(1) if self.regex.groups else found.group(0)


@functools.lru_cache(maxsize=512)
def safe_pattern(pattern: str, *, ignore_case: bool = False) -> SafePattern:
    """Compile ``pattern``. Raises `ConfigError` (a phrase, no place in it) when it is wrong or could hang."""
    if len(pattern) > MAX_PATTERN:
        raise ConfigError(f"the pattern has {len(pattern)} characters, at most {MAX_PATTERN} are allowed")
    try:
        regex = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        parsed = _parser.parse(pattern, regex.flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"'{pattern}' is no regular expression: {error}") from error
    cost = _sequence(parsed, inside=False)
    if cost.repeats > MAX_OPEN_REPEATS:
        raise ConfigError(
            f"'{pattern}' has {cost.repeats} open repeats in a row, at most {MAX_OPEN_REPEATS} are allowed; "
            "bound some of them, as in {0,40} instead of *"
        )
    return SafePattern(regex, _limit(cost, _prefix(parsed)))


def _limit(cost: _Cost, prefix: int) -> int:
    degree = cost.repeats + 1
    room = STEP_BUDGET * math.factorial(degree) * max(1, prefix) / cost.factor
    return max(1, min(TEXT_LIMIT, int(room ** (1 / degree))))


def _prefix(parsed: Any) -> int:
    """How many literal characters the pattern begins with."""
    length = 0
    for name, _ in _named(parsed):
        if name != "LITERAL":
            break
        length += 1
    return length


def _named(items: Any) -> Iterable[tuple[str, Any]]:
    return ((str(op), argument) for op, argument in items)


def _sequence(items: Any, *, inside: bool) -> _Cost:
    """Cost of items in a row; ``inside`` a repeat only what cannot be read in two ways is allowed."""
    cost = _Cost()
    for name, argument in _named(items):
        cost = cost.then(_item(name, argument, inside=inside))
    return cost


def _item(name: str, argument: Any, *, inside: bool) -> _Cost:  # noqa: PLR0911 - one return a kind of item
    if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        return _repeat(argument, inside=inside)
    if name == "SUBPATTERN":
        return _sequence(argument[-1], inside=inside)
    if name == "ATOMIC_GROUP":
        return _sequence(argument, inside=inside)
    if name in {"ASSERT", "ASSERT_NOT"}:
        return _sequence(argument[1], inside=inside)
    if name == "BRANCH":
        return _branch(argument[1], inside=inside)
    if name == "GROUPREF_EXISTS":
        return _branch([choice for choice in argument[1:] if choice is not None], inside=inside)
    if name == "GROUPREF":
        if inside:
            raise ConfigError("a back-reference inside a repeat can take for ever")
        return _Cost(repeats=1)
    return _Cost()


def _repeat(argument: Any, *, inside: bool) -> _Cost:
    least, most, body = argument
    most = int(most)
    if inside and least != most:
        raise ConfigError("a repeat inside a repeat can take for ever; give the inner one a fixed count")
    cost = _sequence(body, inside=inside or most > 1)
    if least == most or most <= 1:
        return cost
    weight = 1.0 if len(body) == 1 and str(body[0][0]) in _SINGLE else _GROUP_WEIGHT
    if most == _OPEN or most >= TEXT_LIMIT:
        return cost.then(_Cost(1, weight))
    return cost.then(_Cost(0, most * weight))


def _branch(choices: Any, *, inside: bool) -> _Cost:
    cost = _Cost()
    for choice in choices:
        cost = cost.either(_sequence(choice, inside=inside))
    if inside:
        heads = [_head(choice) for choice in choices]
        if None in heads or len(set(heads)) != len(heads):
            raise ConfigError(
                "choices inside a repeat must begin with different letters, or they can take for ever"
            )
    return cost


def _head(choice: Any) -> str | None:
    first = next(iter(_named(choice)), None)
    return chr(first[1]).casefold() if first is not None and first[0] == "LITERAL" else None
