"""Reading numbers out of prose, exactly, or not at all.

Understood: signs (``-``, U+2212, ``minus 5``, ``-$5``, ``= - 5``), thousands separators (``1,234,567``,
``12,34,567``, ``1'234``, ``1_000``, ``1 000``, LaTeX ``1{,}000``, ``1,\\!000`` and ``1\\,000``, no-break and
thin spaces), decimals (``.5`` and ``1.234,56`` too), scientific notation (``1.2e-3``, ``1.2 x 10^3``,
``1.2 \\times 10^{-3}``, ``1.2 * 10**3``), powers (``2^10``, ``10³``), fractions (``3/4``, ``½``,
``\\frac{3}{4}``, ``\\frac34``), mixed numbers (``1 1/2``, ``2½``, ``2\\frac{1}{2}``), percent signs and
words of scale (``50 %``, ``3 million``, ``5 lakh``, ``3万``), degrees (``90^\\circ``), and the decimal digits
of every script, letters of scripts without spaces beside them or not. Other units are left out.

Not understood, so that nothing comes out instead of a wrong number: a decimal comma that could be a list
(``1,23``), times, ratios and dates (``10:30``, ``12/05/2024``), ranges, lists and expressions (``5-10``,
``(3, 4)``, ``1 or 2``, ``3 + 4``), roots, logarithms, multiples of pi and imaginary numbers, repeating
decimals, numbers of another base, inequalities, quantities in two units (``2 hours 30 minutes``), and
numbers of absurd size (over 400 digits or decimal powers). Exponents of units and variables (``12 cm^2``),
subscripts, and digits of names (``GPT-4``) are not numbers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from nemo_gym.verifiers.patterns import TEXT_LIMIT, Which

_LARGEST = 400
"""Digits and decimal powers beyond which a number is not read."""

_TAIL = 4_096
"""Looked at first for the last number; a number in its second half cannot be cut by its beginning."""

_CONTEXT = 32
"""Characters on each side of a number that say what it is part of."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as a text has it."""

    text: str
    """As written, digits and signs of other scripts as ASCII."""
    value: Fraction
    """Units and percent signs left out; a word of scale (``million``) counts."""
    other: Fraction | None = None
    """What it may mean as well: the hundredth of a percentage, a scaled number without its scale."""
    by_word: bool = False
    """A word of scale follows it: an answer may leave the word out, an expected answer means it."""

    @property
    def readings(self) -> tuple[Fraction, ...]:
        """Every value that the text may mean as an answer."""
        return (self.value,) if self.other is None else (self.value, self.other)

    @property
    def accepted(self) -> tuple[Fraction, ...]:
        """Every value that is right where this is the expected answer."""
        return (self.value,) if self.by_word else self.readings


_RUN = r"(?:\d++(?:[.,]\d++)*+|(?<![\w.])\.\d++)"
_EXPONENT = (
    r"(?:\^|\*\*)\s?(?:\{{\s?(?P<{0}>[-+]?\d{{1,9}})\s?\}}|\((?P<{0}r>[-+]?\d{{1,9}})\)"
    r"|(?P<{0}b>[-+]?\d{{1,9}})(?!\w|\.\d))"
)
_FRAC = (
    r"\\[dt]?frac\s?(?:\{{\s?(?P<{0}n>-?\d{{1,400}})\s?\}}|(?P<{0}m>\d))"
    r"\s?(?:\{{\s?(?P<{0}d>\d{{1,400}})\s?\}}|(?P<{0}e>\d))"
)
_NUMBER = re.compile(
    r"(?<!\w)(?<!\d[.,])(?P<sign>[-+])?(?:"
    + _FRAC.format("f")
    + r"|(?<!\d/)(?P<whole>\d{1,400})(?:"
    + r"\s{1,2}(?P<mn>\d{1,400})/(?P<md>\d{1,400})(?![\d/]|\.\d)"
    + r"|\s?"
    + _FRAC.format("w")
    + r")|(?<!\d/)(?P<n>\d{1,400})\s?/\s?(?P<d>\d{1,400})(?!\s?/\s?\d|\d|[.,]\d)"
    + r"|(?P<spaced>[1-9]\d{0,2}(?: \d{3})++(?!\d))"
    + rf"|(?P<number>{_RUN})(?:[eE](?P<e>[-+]?\d{{1,9}})(?!\w)"
    + r"|\s?(?:x|X|\*|\u00d7|\u00b7|\\times|\\cdot)\s?10\s?"
    + _EXPONENT.format("s")
    + r"|\s?"
    + _EXPONENT.format("p")
    + r")?+)"
)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?")
_PLAIN = re.compile(r"\d*(?:\.\d+)?")
_COMMA_DECIMAL = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+,\d+")

_SIGNS = str.maketrans(
    "\u2212\ufe63\uff0d\uff0b\uff0e\uff0c\uff0f\u066b\u066c\u2044\u2019",  # full-width and Arabic marks too
    "---+.,/.,/'",
)
_RAISED = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b", "0123456789+-"
)
_SUPERSCRIPT = re.compile("[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
_EMPHASIS = re.compile(r"(?<!\w)(_{1,3})(?=\S)([^_\n{}$\\^]{1,80}?)(?<=\S)\1(?!\w)")
"""``__18__``: emphasis of Markdown, whose underscores would make the digits part of a word."""
_OTHER_LETTER = r"[^\W\d_\x00-\u024f\u0370-\u052f\u1e00-\u1fff\uff21-\uff5a]"
_GLUED = re.compile(rf"(?<={_OTHER_LETTER})(?=[-+]?\.?\d)|(?<=\d)(?={_OTHER_LETTER})")
"""Between a digit and a letter of a script whose words digits are not part of: Chinese, Thai, Arabic, …"""
_SPACED_DECIMAL = re.compile(r"(?<![\d.,])(\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+),(?=\d+(?![.,]?\d))")
"""``1 234,50`` with spaces that do not break: one number, and its comma a decimal one."""
_GROUPING = re.compile(r"(?<=\d)(?:\{,\}|,?\\[,!; ]|[\u00a0\u2009\u202f'_])(?=\d{3}(?!\d))")

_NAME_PART = re.compile(r"(?:[A-Za-z]-|[\^_][{(]?|\^[{(]?-)\Z")
"""Before digits that are not numbers: ``GPT-4``, exponents and subscripts of letters."""
_MINUS = re.compile(
    r"(?:(?<![\w)\]}])-\s?\\?[$\u20ac\u00a3\u00a5]|(?<=[=:(])\s?-\s|(?<=[=:(])\s?\u2013\s?|(?:\A|(?<=[\s$]))\u2013|\b(?:minus|negative)\s)\Z",
    re.IGNORECASE,
)
_LEFT_OPERAND = re.compile(r"(?:\d\s?|[)\]}%])\Z")
_BULLET = re.compile(r"(?:\A|\n)[ \t]*[-+*][ \t]\Z")
_UNSURE_BEFORE = re.compile(
    r"(?:"
    # an expression or a range
    r"(?:[\d)\]}%]|(?<![A-Za-z])[a-z]|\\pi|\u03c0)"
    r"\s?(?:\*\*|[-+*/\u00d7\u00b7\u00f7\u2013]|\\times|\\cdot|\\div)\s?"
    r"|\d\s[xX]\s|\d\s?:|\d\s:\s|\d\s?[-+]"
    r"|[\d)\]}%]\s?(?:[+*/\u00d7\u00b7\u00f7]|\\times|\\cdot|\\div)\s?\("
    r"|\d\s?\\?[%$\u00b0]?\s(?:or|and|to|through|minus|plus|times|out of)\s\\?[$\u20ac\u00a3\u00a5]?"
    r"|\d\s?\\text\s?\{\s*(?:or|and|to)\s*\}\s?|\d\}\$?\s(?:or|and)\s\$?\\boxed\{"
    r"|\d\s?\u2013\s?\\?[$\u20ac\u00a3\u00a5]"
    r"|\d\s?[\u767e\u5343\u4e07\u842c\u4ebf\u5104\ub9cc\uc5b5]\s"  # the rest of a number in parts
    r"|[^\s>=:(|]\s?[-\u2013]\s"  # a dash or a minus
    r"|\u00b1\s?|\+/-\s?|\\pm\s?"
    r"|[<\u2264\u2265\u2260]\s?|\\(?:le|ge|lt|gt|ne|leq|geq|neq)\s?|\S >\s?"
    r"|(?:\u221a|(?<![A-Za-z])(?:sqrt|ln|log|sin|cos|tan|exp))(?:_\{?\d+\}?|\[\d+\])?\s?[({]?\s?"
    r"|\\(?:overline|bar|dot)\s?\{?|\d\.\(|\}\s?\{\s?"
    r")\Z"
)
_UNSURE_AFTER = re.compile(
    r"i(?!\w)|\s?(?:\\?pi\b|\u03c0|\\?sqrt\b|\u221a"
    r"|\^(?!\s?\{?\s?(?:\\circ|\\degree|o(?!\w)|\\(?:text|mathrm)\s?\{\s?(?:st|nd|rd|th|o)\s?\}))|\*\*\s?[-+(]?\d|_\{?\d|\)\s?\^)"
    r"|[eE][-+]?\d|[.,:]\d|\.\(\d|\s?/\s?\d|\s:\s\d|\s?[-\u2013]\s?\d|\s?[+*\u00d7\u00b7\u00f7]\s?\d|\s?\\(?:times|cdot|div|pm)\b"
    r"|\.?\\(?:overline|bar|dot)\b|\}\s?\{"
    r"|\s(?:and\s)?(?:an?\s|one\s)?(?:half|quarter|third)s?\b"
    r"|\s?\\?[%$\u00b0]?\s(?:or|to|through|out of)\s\\?[$\u20ac\u00a3\u00a5]?\d|\s?\u00b1|\s\+/-"
    r"|\s?\\text\s?\{\s*(?:or|and|to)\s*\}\s?[-$\\\d]"
    r"|\s?[\u767e\u5343\u4e07\u842c\u4ebf\u5104\ub9cc\uc5b5]\s?\d"
)
_PARTS = {
    r"years?": r"months?|weeks?|days?",
    r"weeks?": r"days?",
    r"days?": r"hours?|hrs?",
    r"hours?|hrs?|h": r"minutes?|mins?|m",
    r"minutes?|mins?": r"seconds?|secs?|s",
    r"feet|foot|ft|'": r"inch(?:es)?|in|\"",
    r"pounds?|lbs?": r"ounces?|oz",
    r"dollars?": r"cents?",
}
"""Units, and those of the rest of a quantity. No comma is between: ``after 2 hours, 30 minutes remain``."""
_PART = re.compile(
    "|".join(
        rf"\d\s?(?:{larger})\s?(?:and\s)?(\d+(?:\.\d+)?)\s?(?:{smaller})(?!\w)"
        for larger, smaller in _PARTS.items()
    ),
    re.IGNORECASE,
)
"""``2 hours and 30 minutes``, ``5 ft 3 in``: neither of both numbers is the quantity."""
_LISTED_BEFORE = re.compile(r"\d\s?[,;]\s?[-+]?\Z")
_LISTED_AFTER = re.compile(r"\s?\\?[)\]}]")
_LIST_OPENS = re.compile(r"[(\[{]\s?[-+]?\Z")
_LIST_GOES_ON = re.compile(r"\s?[,;]\s?[-+]?\d")

_PERCENT = re.compile(r"\s?(?:\\?%|per\s?cent\b)", re.IGNORECASE)
_SCALE_WORD = re.compile(
    r"\s?(?:\\text\{\s?)?(?:(hundred|thousand|million|billion|trillion|dozen|lakh|crore)s?\b"
    r"|(\u767e(?!\u5206)|\u5343(?![\u7c73\u514b\u74e6\u5361\u8d6b])"
    r"|[\u4e07\u842c\u4ebf\u5104\ub9cc\uc5b5]|\u0932\u093e\u0916|\u0915\u0930\u094b\u0921\u093c?))",
    re.IGNORECASE,
)
_SCALE_LETTER = re.compile(r"(k|K|M|B|bn|T)(?!\w)")
_SCALES = {
    "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12,
    "lakh": 10**5, "crore": 10**7, "\u0932\u093e\u0916": 10**5,
    "\u0915\u0930\u094b\u0921": 10**7, "\u0915\u0930\u094b\u0921\u093c": 10**7,
    "\u767e": 100, "\u5343": 10**3, "\u4e07": 10**4, "\u842c": 10**4, "\ub9cc": 10**4,
    "\u4ebf": 10**8, "\u5104": 10**8, "\uc5b5": 10**8,
    "k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "bn": 10**9, "T": 10**12,
}  # fmt: skip


_LONE = re.compile(r"(?:(?:#++|([A-Za-z]++))[:,.]?[ \n])*+([0-9]{1,15})\.?[ \n]*").fullmatch
"""``The answer is 42.``: words and one number, the quick way to what the long one finds as well."""
_CHANGE_IT = frozenset({"minus", "negative", "sqrt", "ln", "log", "sin", "cos", "tan", "exp"})
"""Words that make another number of the one behind them."""

_PLAIN_DIGITS = 15
"""Digits alone, and no more than these, are a number without a closer look."""


def read_number(value: object) -> Number | None:
    """The number that a dataset's answer holds: a JSON number, or text with exactly one number in it."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Number(str(value), Fraction(value))
    if isinstance(value, float):
        finite = value == value and abs(value) != float("inf")  # noqa: PLR0124
        return Number(repr(value), Fraction(repr(value))) if finite else None
    if not isinstance(value, str):
        return None
    if _is_plain(value):
        return Number(value, Fraction(int(value)))
    text = _ascii(value)
    matches = list(_matches(text))
    return _number(text, matches[0]) if len(matches) == 1 else None


def pick_number(text: str, which: Which = "last") -> Number | None:
    """The first or last number of a text, ``None`` where it is not sure; looks at `TEXT_LIMIT` characters."""
    lone = _LONE(text) if len(text) <= _CONTEXT * 8 else None
    if lone is not None and (lone[1] or "").lower() not in _CHANGE_IT:
        return Number(lone[2], Fraction(int(lone[2])))
    return _searched(text, which)


def _searched(text: str, which: Which) -> Number | None:
    if which == "first":
        plain = _ascii(text[:TEXT_LIMIT])
        found = next(_matches(plain), None)
        return None if found is None else _number(plain, found)
    if len(text) > _TAIL:
        plain = _ascii(text[-_TAIL:])
        found = _last(_matches(plain))
        if found is not None and found.start() >= _TAIL // 2:
            return _number(plain, found)
    plain = _ascii(text[-TEXT_LIMIT:])
    found = _last(_matches(plain))
    return None if found is None else _number(plain, found)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _PLAIN_DIGITS


def _last(matches: Iterable[re.Match[str]]) -> re.Match[str] | None:
    found = None
    for found in matches:  # noqa: B007 - the last one is wanted
        pass
    return found


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Numbers of a text, exponents of units, subscripts and digits of names left out."""
    for match in _NUMBER.finditer(text):
        part_of = _NAME_PART.search(text, max(0, match.start() - 4), match.start())
        if part_of is None or (match["sign"] and part_of[0][0] not in "^_"):
            yield match


def _ascii(text: str) -> str:
    """Digits and signs of other scripts as ASCII, powers as ``^{…}``, separators of thousands as commas."""
    if "_" in text:
        text = _EMPHASIS.sub(r"\2", text)
    if not text.isascii():
        text = _SPACED_DECIMAL.sub(r"\1.", text)
        text = "".join(_ascii_char(char, text[at - 1 : at]) for at, char in enumerate(text.translate(_SIGNS)))
        text = _SUPERSCRIPT.sub(lambda raised: f"^{{{raised[0].translate(_RAISED)}}}", text)
        text = _GLUED.sub(" ", text)
    return _GROUPING.sub(",", text)


def _ascii_char(char: str, before: str) -> str:
    if char.isascii():
        return char
    if (digit := unicodedata.decimal(char, None)) is not None:
        return str(digit)
    if unicodedata.decomposition(char).startswith("<fraction>"):
        plain = unicodedata.normalize("NFKC", char).replace("\u2044", "/")
        return f" {plain}" if before.isdigit() else plain
    return char


def _number(text: str, match: re.Match[str]) -> Number | None:
    """The value of a match, unless what is around it makes it a part of something else."""
    before = text[max(0, match.start() - _CONTEXT) : match.start()]
    after = text[match.end() : match.end() + _CONTEXT]
    written, value = match[0], _value(match)
    if value is None:
        return None
    if minus := _MINUS.search(before):
        if match["sign"] or _LEFT_OPERAND.search(before[: minus.start()]):
            return None
        before, written, value = "", f"-{written}", -value
    elif match["sign"] and _LEFT_OPERAND.search(before):
        return None
    elif not match["sign"] and _BULLET.search(before):
        before = ""
    if _UNSURE_BEFORE.search(before) or _UNSURE_AFTER.match(after) or _in_a_list(before, after):
        return None
    if _is_part(match):
        return None
    return _with_scale(written, value, after)


def _is_part(match: re.Match[str]) -> bool:
    """Whether the number is one of both in a quantity of two units."""
    around = match.string[max(0, match.start() - _CONTEXT) : match.end() + _CONTEXT]
    at = min(match.start(), _CONTEXT)
    return any(part.start() < at + len(match[0]) and at < part.end() for part in _PART.finditer(around))


def _in_a_list(before: str, after: str) -> bool:
    ends = _LISTED_BEFORE.search(before) and _LISTED_AFTER.match(after)
    return bool(ends or (_LIST_OPENS.search(before) and _LIST_GOES_ON.match(after)))


def _with_scale(text: str, value: Fraction, after: str) -> Number:
    if percent := _PERCENT.match(after):
        return Number(text + percent[0], value, value / 100)
    if word := _SCALE_WORD.match(after):
        name = word[1] or word[2]
        return Number(f"{text} {name}", value * _SCALES[name.lower()], value, by_word=True)
    if letter := _SCALE_LETTER.match(after):
        return Number(text + letter[0], value, value * _SCALES[letter[1]])
    return Number(text, value)


def _value(match: re.Match[str]) -> Fraction | None:
    if _is_plain(match[0]):
        return Fraction(int(match[0]))
    sign = -1 if match["sign"] == "-" else 1
    if match["spaced"]:
        value = _spaced(match["spaced"])
    elif match["number"]:
        value = _decimal(match)
    else:
        value = _fraction(match)
    return None if value is None else sign * value


def _spaced(written: str) -> Fraction | None:
    """``1 000`` is a number; ``100 200`` may be two."""
    groups = written.split(" ")
    return Fraction("".join(groups)) if any(group.startswith("0") for group in groups[1:]) else None


def _fraction(match: re.Match[str]) -> Fraction | None:
    parts = match.groupdict()
    above = next(parts[name] for name in ("fn", "fm", "wn", "wm", "mn", "n") if parts[name])
    below = next(parts[name] for name in ("fd", "fe", "wd", "we", "md", "d") if parts[name])
    if int(below) == 0:
        return None
    return int(match["whole"] or 0) + Fraction(int(above), int(below))


def _decimal(match: re.Match[str]) -> Fraction | None:
    number = _plain_decimal(match["number"])
    if number is None:
        return None
    parts = match.groupdict()
    power = parts["e"] or parts["s"] or parts["sr"] or parts["sb"]
    exponent = parts["p"] or parts["pr"] or parts["pb"]
    if power is not None:
        return number * Fraction(10) ** int(power) if abs(int(power)) <= _LARGEST else None
    if exponent is None:
        return number
    if abs(int(exponent)) * len(match["number"]) > _LARGEST or (number == 0 and int(exponent) < 0):
        return None
    return number ** int(exponent)


def _plain_decimal(written: str) -> Fraction | None:
    if len(written) > _LARGEST:
        return None
    if _PLAIN.fullmatch(written):
        return Fraction(written)
    if _GROUPED.fullmatch(written):
        return Fraction(written.replace(",", ""))
    if _COMMA_DECIMAL.fullmatch(written):
        return Fraction(written.replace(".", "").replace(",", "."))
    return None
