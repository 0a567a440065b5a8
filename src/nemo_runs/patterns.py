"""Regular expressions that are compiled when they are first used: most programs use few of those."""

from __future__ import annotations

import re
from typing import Any, cast


class _Lazy:
    """Stands for a pattern; from the first use on its methods are the pattern's own."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # asked only for what was not taken over yet
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but at the first use; so a text that is not a pattern is an error only then."""
    return cast("re.Pattern[str]", _Lazy(text, flags))
