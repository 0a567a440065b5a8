"""Reading numbers out of prose, exactly.

Understood: signs (also U+2212), thousands separators (``1,234,567``, LaTeX ``1{,}000`` and ``1\\,000``,
no-break and thin spaces), decimals (``.5`` too), scientific notation (``1.2e-3``, ``1.2 x 10^3``,
``1.2 \\times 10^{-3}``), fractions (``3/4``, ``\\frac{3}{4}``) and mixed numbers (``1 1/2``), and the decimal
digits of every script. A percent or currency sign is a unit and is left out, on both sides of a comparison.
``5-3`` is two numbers: a sign counts only where it does not follow an operand. A date is three numbers.
Numbers of absurd size (over 400 digits or decimal powers) are not read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from fractions import Fraction

from nemo_gym.verifiers.patterns import TEXT_LIMIT, Which

_LARGEST = 400
"""Digits and decimal powers beyond which a number is not read."""

_TAIL = 4_096
"""Looked at first for the last number; a number in its second half cannot be cut by its beginning."""

_UNSIGNED = r"(?:[1-9]\d{0,2}(?:,\d{3})++(?!\d)|\d++)(?:\.\d++)?+|(?<![\w.])\.\d++"
_POWER = (
    r"(?:[eE](?P<e>[-+]?\d{1,9})(?!\w)"
    r"|\s?(?:x|X|\*|\u00d7|\u00b7|\\times|\\cdot)\s?10\s?\^\s?\{?(?P<p>[-+]?\d{1,9})\}?)?+"
)
_NUMBER = re.compile(
    r"(?<!\w)(?<!\d\.)(?P<sign>(?<![)\]}])[-+])?(?:"
    r"\\[dt]?frac\s?\{\s?(?P<fn>-?\d{1,400})\s?\}\s?\{\s?(?P<fd>\d{1,400})\s?\}"
    r"|(?<!\d/)(?P<whole>\d{1,400}) (?P<mn>\d{1,400})/(?P<md>\d{1,400})(?![\d/]|\.\d)"
    r"|(?<!\d/)(?P<n>\d{1,400})\s?/\s?(?P<d>\d{1,400})(?![\d/]|\.\d)"
    rf"|(?P<number>{_UNSIGNED}){_POWER}(?!\.\d)"
    r")"
)
_SIGNS = str.maketrans(
    "\u2212\ufe63\uff0d\uff0b\uff0e\uff0c\uff0f\u066b\u066c",  # minus signs, full-width and Arabic marks
    "---+.,/.,",
)
_GROUPING = re.compile(r"(?<=\d)(?:\{,\}|\\,|[\u00a0\u2009\u202f])(?=\d{3}(?!\d))")


def read_number(value: object) -> Fraction | None:
    """The number that a dataset's answer holds: a JSON number, or text with exactly one number in it."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float):
        return Fraction(repr(value)) if value == value and abs(value) != float("inf") else None  # noqa: PLR0124
    if not isinstance(value, str):
        return None
    found = [number for match in _matches(value) if (number := _value(match)) is not None]
    return found[0] if len(found) == 1 else None


def pick_number(text: str, which: Which = "last") -> tuple[str, Fraction] | None:
    """The first or last number of a text as written and its value; looks at `TEXT_LIMIT` characters."""
    if which == "first":
        return _first(_matches(text[:TEXT_LIMIT]), 0)
    if len(text) > _TAIL:
        found = _first(reversed(list(_matches(text[-_TAIL:]))), _TAIL // 2)
        if found is not None:
            return found
    return _first(reversed(list(_matches(text[-TEXT_LIMIT:]))), 0)


def _first(matches: Iterable[re.Match[str]], start: int) -> tuple[str, Fraction] | None:
    """The first match that has a value and does not begin before ``start``."""
    for match in matches:
        if match.start() >= start and (value := _value(match)) is not None:
            return match.group(0), value
    return None


def _matches(text: str) -> Iterator[re.Match[str]]:
    return _NUMBER.finditer(_GROUPING.sub(",", _ascii(text)))


def _ascii(text: str) -> str:
    """Digits and signs of other scripts as ASCII, everything else as it is."""
    if text.isascii():
        return text
    return "".join(
        char if char.isascii() or (digit := unicodedata.decimal(char, None)) is None else str(digit)
        for char in text.translate(_SIGNS)
    )


def _value(match: re.Match[str]) -> Fraction | None:
    sign = -1 if match["sign"] == "-" else 1
    if match["number"] is None:
        value = _fraction(match)
    else:
        value = _decimal(match["number"], match["e"] or match["p"])
    return None if value is None else sign * value


def _fraction(match: re.Match[str]) -> Fraction | None:
    above, below = match["fn"] or match["mn"] or match["n"], match["fd"] or match["md"] or match["d"]
    if int(below) == 0:
        return None
    return int(match["whole"] or 0) + Fraction(int(above), int(below))


def _decimal(written: str, power: str | None) -> Fraction | None:
    exponent = int(power or 0)
    if len(written) > _LARGEST or abs(exponent) > _LARGEST:
        return None
    return Fraction(written.replace(",", "")) * Fraction(10) ** exponent
