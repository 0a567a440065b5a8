"""Finding the chosen letter in a text: the four grading modes of multiple choice. Pure, linear time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Literal

from nemo_runs.patterns import pattern

GradingMode = Literal[
    "strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"
]

Choices = Mapping[str, str]
"""Option text by capital letter."""

_BOXED = "\\boxed{"
_BRACES = pattern(r"\\boxed\{|\\[{}]|[{}]")
_TEXT = pattern(
    r"\\(?:text(?:bf|rm|it|sf|tt|sc|up|normal)?|math(?:bf|rm|it|sf|tt)|boldsymbol|bm)\s?\{([^{}]*)\}"
)
"""Commands that say how letters look."""
_STRICT = pattern(r"([A-Z])(?:[:).-](?!\s*[A-Z](?![\w'\u2019]))|\Z)")
_NAMED = pattern(
    r"(?:option |choice |answer )?\(?([A-Z])(?:\)(?!\s*\(?[A-Z](?![\w'\u2019]))|\Z)", re.IGNORECASE
)
"""``(B)``, ``(B) banana``, ``Option B``: what the modes that are not strict understand in a box as well."""
_ANSWER = pattern(r"answer:[ \t]*([^\n]*)", re.IGNORECASE)
_EMPHASIS = pattern(r"[*_`$]+")
_ANSWER_MD = pattern(r"answer[\"'\u201d]?[ \t]?:[ \t]*", re.IGNORECASE)
_QUOTED = pattern("[\"'\u201c\u2018]([^\"'\u201c\u201d\u2018\u2019\n]*)[\"'\u201d\u2019]")
_NEXT_LINE = pattern(r"\s*\n\s*([^\n]*)")
_LEADING = pattern(r"[(\[{\s]*(?:([A-Z])(?![\w'’])|([a-z])[)\]}.:,\s]*\Z)")  # noqa: RUF001 - a real apostrophe
_AS_WORD = pattern(
    r"A (?!(?:is|was|seems|because|since|as|by|for|from|and|or|but|not|the|which|would)\b)[a-z]"
    r"|I (?!(?:is|because|since|as)\b)[a-z]"
)
"""``A banana``, ``I think``: an article or a pronoun, not an option."""
_NEGATED = pattern(
    r"(?:\b(?:not|cannot be|neither|nor|except|rather than|instead of|exclud\w+|eliminat\w+|rul\w+ out)"
    r"|n['\u2019]t(?: be)?) +(?:option |choice |answer )?[(\"]?\Z",
    re.IGNORECASE,
)
_WORDS = 32
"""Characters before a letter in which a negation is looked for."""
_STANDALONE = pattern(r"(?<![\w'’])([A-Z])(?![\w'’])")  # noqa: RUF001 - the same
_LIST = pattern(
    r"[(\[{\s]*(?:both |either )?\(?([A-Z])\)?"
    r"[ \t]*(?:,|/|;|&|\+|\||and\b|or\b)+[ \t]*(?:and |or )?\(?([A-Z])\)?(?!\w)",
    re.IGNORECASE,
)
_SEPARATED = pattern(r"[ \t]*(?:,|/|;|&|\+|\||\band\b|\bor\b)[ \t,]*(?:and |or )?\(?([A-Z])\)?(?!\w)")
_FOREIGN = {
    **dict(zip("أبجدهوزحطي", "ABCDEFGHIJ", strict=True)),  # Arabic, in the order of numbering
    "\u0627": "A",  # alef without its hamza
    **dict(zip("অবডঢ", "ABCD", strict=True)),  # Bengali, by sound
    **dict(zip("কখগঘঙচ", "ABCDEF", strict=True)),  # Bengali, in alphabetical order
}


def choices_of(options: Any) -> dict[str, str]:
    """Letter to text of a row's ``options`` (list of one-key maps, or one map); null texts do not count."""
    maps = options if isinstance(options, list) else [options]
    return {
        str(letter).strip().upper(): str(text)
        for entry in maps
        if isinstance(entry, Mapping)
        for letter, text in entry.items()
        if text is not None
    }


def chosen(mode: GradingMode, text: str, choices: Choices, answer_prefix: str | None = None) -> str | None:
    """The letter that a text chooses under a grading mode, or ``None``."""
    if mode == "lenient_answer_colon_md":
        return _answer_colon_md(text, choices, answer_prefix)
    return _RULES[mode](text, choices)


def last_boxed(text: str) -> str | None:
    r"""Content of the last complete ``\boxed{…}``, braces matched; one cut off at the end is passed over."""
    opened: list[tuple[bool, int]] = []
    last, content = -1, None
    for token in _BRACES.finditer(text):
        if token[0] == "}":
            boxed, start = opened.pop() if opened else (False, 0)
            if boxed and start > last:
                last, content = start, text[start : token.start()]
        elif not token[0].startswith("\\") or token[0] == _BOXED:
            opened.append((token[0] == _BOXED, token.end()))
    return content


def letter_of_text(text: str, choices: Choices) -> str | None:
    """The one option whose text is exactly this, spaces and case aside."""
    wanted = _normal(text)
    found = [letter for letter, option in choices.items() if _normal(option) == wanted]
    return found[0] if wanted and len(found) == 1 else None


def _boxed_content(text: str) -> str | None:
    content = last_boxed(text)
    return None if content is None else _without_text(content)


def _without_text(content: str) -> str:
    r"""``\text{A}`` becomes ``A``, however deeply nested (to a bound)."""
    for _ in range(5):
        plain = _TEXT.sub(r"\1", content)
        if plain == content:
            break
        content = plain
    return content.strip()


def _strict_boxed(text: str, choices: Choices) -> str | None:
    content = _boxed_content(text)
    found = _STRICT.match(content) if content else None
    return found[1] if found and found[1] in choices else None


def _lenient_boxed(text: str, choices: Choices) -> str | None:
    letter = _named_in_box(text, choices)
    content = _boxed_content(text)
    if letter is not None or not content:
        return letter
    within = _normal(content)
    found = [letter for letter, option in choices.items() if _contains(within, _normal(option))]
    return found[0] if len(found) == 1 else None


def _answer_colon(text: str, choices: Choices) -> str | None:
    found = _ANSWER.search(text)
    if found is None:
        return None
    payload = _without_text(found[1])
    if len(payload) == 1 and payload.upper() in choices:
        return payload.upper()
    return letter_of_text(payload, choices)


def _answer_colon_md(text: str, choices: Choices, answer_prefix: str | None) -> str | None:
    plain = _plain_letters(unicodedata.normalize("NFKC", text))
    bare = _EMPHASIS.sub("", plain)
    letter = _last_letter(_payloads(_ANSWER_MD, bare), choices)
    if letter is None and answer_prefix and answer_prefix.strip():
        label = _EMPHASIS.sub("", unicodedata.normalize("NFKC", answer_prefix)).strip()
        colon = ":" if label.endswith(":") else ":?"
        prefix = re.compile(rf"{re.escape(label.rstrip(': '))}[ \t]*{colon}[ \t]*", re.IGNORECASE)
        letter = _last_letter(_payloads(prefix, bare), choices)
    return letter if letter is not None else _named_in_box(plain, choices)


def _payloads(label: re.Pattern[str], text: str) -> list[str]:
    """What follows each label, up to the next one or the end of its line.

    Where that is nothing, the next line counts, if it begins with a letter of its own.
    """
    labels = list(label.finditer(text))
    payloads = []
    for at, found in enumerate(labels):
        line_end = text.find("\n", found.end())
        end = len(text) if line_end < 0 else line_end
        if at + 1 < len(labels):
            end = min(end, labels[at + 1].start())
        payload = text[found.end() : end]
        following = None if payload.strip() else _NEXT_LINE.match(text, found.end())
        if following is not None and _LEADING.match(following[1]):
            payload = following[1]
        payloads.append(payload)
    return payloads


def _named_in_box(text: str, choices: Choices) -> str | None:
    letter = _strict_boxed(text, choices)
    named = None if letter is not None else _NAMED.match(_boxed_content(text) or "")
    return named[1] if named and named[1] in choices else letter


def _last_letter(payloads: list[str], choices: Choices) -> str | None:
    """The letter of the last payload that has one; a letter that a later payload denies does not count."""
    denied: set[str] = set()
    for payload in reversed(payloads):
        letter, without = _payload_letter(payload, choices)
        if letter is not None and letter not in denied:
            return letter
        denied |= without
    return None


def _payload_letter(payload: str, choices: Choices) -> tuple[str | None, set[str]]:
    r"""Nothing for a list of distinct letters; else a leading letter, else the last standalone capital.

    The whole text of one option is that option, whatever letters are in it; a letter with the text of another
    option behind it is neither. The second value: letters that are denied (``not A``).
    """
    payload = _without_text(payload)
    if payload.startswith(_BOXED):
        payload = last_boxed(payload) or payload
    if quoted := _QUOTED.match(payload):
        payload = quoted[1]
    whole = payload.rstrip(" .")
    if len(whole) > 1 and (by_text := letter_of_text(whole, choices)) is not None:
        return by_text, set()
    listed = _listed(payload)
    if len(listed) > 1:
        return None, set()
    leading = _LEADING.match(payload)
    letter = (leading[1] or leading[2]).upper() if leading else None
    if leading and letter in choices:
        other = letter_of_text(payload[leading.end() :].strip(" \t)]}.:,-"), choices)
        if other is not None:
            return (letter if other == letter else None), set()
        if not _AS_WORD.match(payload, leading.start(1)):
            return letter, set()
    asserted, denied = _standalone(payload, choices)
    return (asserted[-1] if asserted else None), denied


def _standalone(payload: str, choices: Choices) -> tuple[list[str], set[str]]:
    """Letters of options within a sentence, in order: those that are named, and those that are denied."""
    asserted: list[str] = []
    denied: set[str] = set()
    for found in _STANDALONE.finditer(payload):
        if found[1] not in choices or _AS_WORD.match(payload, found.start()):
            continue
        if _NEGATED.search(payload[max(0, found.start() - _WORDS) : found.start()]):
            denied.add(found[1])
        else:
            asserted.append(found[1])
    return [letter for letter in asserted if letter not in denied], denied


def _listed(payload: str) -> set[str]:
    """The distinct letters of a list such as ``A, B and C`` that the payload begins with."""
    first = _LIST.match(payload)
    if first is None or not (first[1] + first[2]).isupper():
        return set()
    letters = {first[1], first[2]}
    position = first.end()
    while following := _SEPARATED.match(payload, position):
        letters.add(following[1])
        position = following.end()
    return letters


def _plain_letters(text: str) -> str:
    """Standalone letters of other scripts as the Latin letters that they number like."""
    if text.isascii():
        return text

    def latin(match: re.Match[str]) -> str:
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        return match.group() if _joins(before) or _joins(after) else _FOREIGN[match.group()]

    return re.sub(f"[{''.join(_FOREIGN)}]", latin, text)


def _joins(char: str) -> bool:
    return bool(char) and unicodedata.category(char)[0] in "LMN"


def _contains(text: str, option: str) -> bool:
    if not option:
        return False
    numeric = any(char.isdigit() for char in option)
    left = r"(?<![\w.,/^+-])" if numeric else r"(?<!\w)" if re.match(r"\w", option) else ""
    right = r"(?![\w/^%]|[.,]\d)" if numeric else r"(?!\w)" if re.search(r"\w\Z", option) else ""
    return re.search(f"{left}{re.escape(option)}{right}", text) is not None


def _normal(text: str) -> str:
    return " ".join(_without_text(unicodedata.normalize("NFKC", text)).casefold().split())


_RULES: dict[str, Callable[[str, Choices], str | None]] = {
    "strict_single_letter_boxed": _strict_boxed,
    "lenient_boxed": _lenient_boxed,
    "lenient_answer_colon": _answer_colon,
}
