"""Counts in sentences, the noun (and its verb) in the right number."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """``1 row``, ``1,234 rows``; ``many`` is ``one`` with an s unless it is given."""
    return f"{number:,} {noun(number, one, many)}"


def noun(number: int, one: str, many: str = "") -> str:
    """The noun alone, as it follows a number."""
    return one if number == 1 else many or f"{one}s"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    last = 0 if number % 100 in {11, 12, 13} else number % 10
    return f"{number:,}{({1: 'st', 2: 'nd', 3: 'rd'}).get(last, 'th')}"


def every(number: int, one: str, many: str = "") -> str:
    """``the only row``, ``all 1,234 rows``."""
    return f"the only {one}" if number == 1 else f"all {counted(number, one, many)}"
