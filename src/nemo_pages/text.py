"""Text of models, logs and people as it may be shown: every character visible, and never too much of it."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 100_000
"""Characters of one text that a page shows unless it asks for another number."""
_REORDERING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROLS = (
    *(
        "NUL",
        "SOH",
        "STX",
        "ETX",
        "EOT",
        "ENQ",
        "ACK",
        "BEL",
        "BS",
        "TAB",
        "LF",
        "VT",
        "FF",
        "CR",
        "SO",
        "SI",
    ),
    *(
        "DLE",
        "DC1",
        "DC2",
        "DC3",
        "DC4",
        "NAK",
        "SYN",
        "ETB",
        "CAN",
        "EM",
        "SUB",
        "ESC",
        "FS",
        "GS",
        "RS",
        "US",
    ),
)
_UNSEEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\u2028\u2029\ud800-\udfff{_REORDERING}]")


def visible(text: str, longest: int = LONGEST) -> str:
    """The text with control characters, characters that reorder it and half characters as signs.

    A control character becomes its name (``⟨ESC⟩``), others their number (``⟨U+202E⟩``). Line feeds and tabs
    stay. Beyond ``longest`` characters it is cut, and how much is missing is said.
    """
    shown = _UNSEEN.sub(_sign, text[:longest])
    if len(text) > longest:
        shown += f" … ({len(text) - longest:,} more characters)"
    return shown


def one_line(text: str, longest: int = 300) -> str:
    """The same on one line, with single blanks; ends with ``…`` where it is cut."""
    joined = " ".join(text[: longest * 4].split())
    cut = len(joined) > longest or len(text) > longest * 4
    return visible(joined[:longest]) + (" …" if cut else "")


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < len(_CONTROLS):
        return f"⟨{_CONTROLS[code]}⟩"
    if code == 0x7F:
        return "⟨DEL⟩"
    return f"⟨U+{code:04X}⟩" if unicodedata.category(match[0]) != "Cc" else f"⟨{code:02X}⟩"
