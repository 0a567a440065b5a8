"""Drawn tables without the blanks at the ends of their lines: copied text has none of them."""

from __future__ import annotations

import re

_BLANKS = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


def trimmed(drawn: str) -> str:
    """The text of a terminal with every line ending where its words end; colours stay."""
    return _BLANKS.sub(r"\1", drawn)
