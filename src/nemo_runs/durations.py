"""Durations: the forms of Slurm's ``--time``, which job files use, and words, which people read.

A limit that was written in a form of Slurm is shown in it (`slurm_time`), every other duration in words
(`duration_in_words`).
"""

from __future__ import annotations

import re

from nemo_runs.errors import DurationError

__all__ = ["DurationError", "duration_in_words", "parse_duration", "slurm_time"]

_FORMS = "MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"
_CLOCK = re.compile(r"(?:(?:([0-9]{1,9}):)?([0-9]{1,9}):)?([0-9]{1,9})")
_DAYS = re.compile(r"([0-9]{1,6})-([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_YAML_SECONDS = 3600


def parse_duration(value: object, *, where: str) -> int:
    """Read a duration and return seconds; ``where`` is the dotted path that a message begins with.

    A string is ``MM``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM`` or ``D-HH:MM:SS``; an integer below
    3600 is minutes. An integer of 3600 or more is what YAML makes of an unquoted ``48:00:00`` and is refused,
    as are zero, negative numbers, booleans and everything else, with `DurationError`.
    """
    if isinstance(value, str):
        seconds = _parse_text(value.strip(), where)
    elif isinstance(value, int) and not isinstance(value, bool):
        seconds = _from_integer(value, where)
    else:
        raise DurationError(f'{where}: {value!r} is not a duration; write {_FORMS} in quotes: "04:00:00"')
    if seconds == 0:
        raise DurationError(f"{where}: a duration of zero; it must be longer")
    return seconds


def slurm_time(seconds: int) -> str:
    """Write seconds as ``HH:MM:SS``, from one day on as ``D-HH:MM:SS``; `parse_duration` reads both."""
    if seconds < 0:
        raise DurationError(f"a duration of {seconds} s; it cannot be negative")
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def duration_in_words(seconds: float, *, units: int = 2, tenths: bool = False) -> str:
    """Seconds with the largest units that they fill: ``3 d 4 h``, ``1 h 2 min``, ``2 min``, ``59 s``.

    Rounded to a second first, so that no part of it ever reaches the next unit; what is less than the last
    of ``units`` is left out. ``tenths``: with one decimal below a minute, ``4.2 s``. Negative is 0.
    """
    seconds = max(seconds, 0.0)
    if tenths and round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    left = round(seconds)
    parts: list[str] = []
    for at, (unit, size) in enumerate(_UNITS):
        count, rest = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
        if parts and (len(parts) == units or at == len(_UNITS) - 1 or not rest):
            break
        if parts and not count:
            break
        left = rest
    return " ".join(parts) or "0 s"


def _from_integer(value: int, where: str) -> int:
    if value < 0:
        raise DurationError(f"{where}: {value} is negative; write minutes, or {_FORMS}")
    if value >= _YAML_SECONDS:
        meant = f"{value // 3600:02}:{value // 60 % 60:02}:{value % 60:02}"
        raise DurationError(
            f'{where}: {value} is how YAML reads an unquoted {meant}; quote it: "{meant}" '
            f'(or, if {value} minutes are meant, "{value}")'
        )
    return value * 60


def _parse_text(text: str, where: str) -> int:
    if match := _DAYS.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    elif match := _CLOCK.fullmatch(text):
        days = 0
        hours, minutes, seconds = _clock_parts(*match.groups())
    else:
        raise DurationError(f"{where}: {text[:40]!r} is not a duration; write {_FORMS}")
    has_hours = "-" in text or text.count(":") == 2
    if ":" in text and (seconds > 59 or (has_hours and minutes > 59)):
        raise DurationError(f"{where}: {text!r} has more than 59 after a colon; write {_FORMS}")
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _clock_parts(first: str | None, second: str | None, last: str) -> tuple[int, int, int]:
    """Hours, minutes, seconds: one number alone is minutes, two are minutes and seconds."""
    if second is None:
        return 0, int(last), 0
    return int(first or 0), int(second), int(last)
