"""JSON that people write, read so that every reader finds the same in it.

What readers disagree about is refused: NaN and infinities, whole numbers beyond 64 bits, a key that one
object has twice (readers keep one of the two values and say nothing), and halves of characters.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

_LARGEST, _SMALLEST = (1 << 64) - 1, -(1 << 63)
SHORT: Final = 18
"""So many digits always fit into 64 bits."""


def loads(text: str) -> Any:
    """The value of a text.

    Raises `json.JSONDecodeError` for what is not JSON, and `ValueError` with a phrase, to follow the name of
    what holds the text, for JSON that is refused.
    """
    try:
        value = json.loads(
            text, parse_constant=_no_number, parse_int=_whole, parse_float=_real, object_pairs_hook=_object
        )
    except RecursionError:
        raise ValueError("is not JSON that can be read: its brackets are too deep") from None
    if "\\u" in text and not _is_text(value):
        raise ValueError("holds half of a character (an escape such as \\ud800 without the other)")
    return value


def checked(value: Any) -> Any:
    """A value that another notation made, YAML for one, as `loads` reads it.

    Raises `ValueError` with a phrase, as `loads` does, also for a value that JSON cannot hold.
    """
    try:
        text = json.dumps(value)
    except TypeError as error:
        raise ValueError(f"holds a value that JSON does not have ({error})") from None
    except (ValueError, RecursionError):
        raise ValueError("holds a list or an object that contains itself, or is nested too deeply") from None
    return loads(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    names = [name for name, _ in pairs]
    doubled = next(name for name in made if names.count(name) > 1)
    raise ValueError(f"has the key {_cut(doubled)!r} more than once in one object; leave all but one out")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"holds {name}, which is not a number in JSON; leave it out, or write null")


def _whole(digits: str) -> int:
    if len(digits) > SHORT and not (len(digits) <= 2 * SHORT and _SMALLEST <= int(digits) <= _LARGEST):
        raise ValueError(
            f"holds the whole number {_cut(digits)}, which has more than 64 bits; write it as text, in quotes"
        )
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"holds the number {_cut(digits)}, which is too large; write it as text, in quotes")
    return value


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _is_text(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
