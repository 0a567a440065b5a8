"""Text tables for terminals: columns as wide as they need, without a line that runs into another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes text for a formula."""


Style = Callable[[str], str]
"""Takes the text of a cell, and gives it with the codes that colour it in a terminal."""


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    styles: Mapping[int, Style] | None = None,
) -> str:
    """Columns of text, two blanks apart; characters that would break a line are shown escaped.

    What is wider than ``width``, the columns of a terminal, has its first column on lines of its own.
    ``styles``: of the cells of a column, by its number.
    """
    styles = styles or {}
    text = _columns(columns, rows, {})
    if width is None or max(map(len, text.splitlines())) <= width:
        return _columns(columns, rows, styles) if styles else text
    rest = {number - 1: style for number, style in styles.items()}
    head, *lines = _columns(columns[1:], [row[1:] for row in rows], rest).splitlines()
    shown = [f"  {head}"]
    for number, (row, line) in enumerate(zip(rows, lines, strict=True)):
        if number == 0 or rows[number - 1][0] != row[0]:
            shown.append(_one_line(row[0]))
        shown.append(f"  {line}")
    return "\n".join(shown)


def _columns(columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[int, Style]) -> str:
    shown = [list(columns), *([_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(columns))]
    lines = []
    for number, row in enumerate(shown):
        cells = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            styled = styles[column](cell) if number and column in styles else cell
            cells.append(styled + " " * (width - len(cell)))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def no_formula(cell: str) -> str:
    """Text that no spreadsheet runs; numbers stay numbers."""
    if not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
