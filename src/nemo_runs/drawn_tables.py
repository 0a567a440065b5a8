"""Tables as they are drawn: of a terminal without blanks at the ends of lines, and as HTML for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

_BLANKS = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


def trimmed(drawn: str) -> str:
    """The text of a terminal with every line ending where its words end; colours stay."""
    return _BLANKS.sub(r"\1", drawn)


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table without styles of its own; all text is escaped. Without ``columns`` it has no heading."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
