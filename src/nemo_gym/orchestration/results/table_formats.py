"""Tables of results in the formats of papers, pages and spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Literal

from nemo_gym.orchestration.results.matrix import MatrixCell, ScoreMatrix
from nemo_gym.text_table import no_formula, table

TableFormat = Literal["text", "csv", "markdown", "latex"]

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def matrix_text(
    matrix: ScoreMatrix,
    form: TableFormat,
    *,
    head: str,
    facts: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """A matrix of scores with 95 % intervals, in percent; the significantly best of a column is marked.

    ``head`` is the heading of the rows' names, ``facts`` those of further columns. ``csv`` has
    shares from 0 to 1 and a column for each end of the interval.
    """
    if form == "csv":
        return _matrix_csv(matrix, [head, *facts])
    named = {row: [row, *(value or "-" for value in _facts(matrix, row, facts))] for row in matrix.rows}
    scores = {
        row: [_shown(matrix.cells.get((row, column)), form) for column in matrix.columns]
        for row in matrix.rows
    }
    if form == "text":
        rows = [[*named[row], *scores[row]] for row in matrix.rows]
        return table([head.upper(), *(fact.upper() for fact in facts), *matrix.columns], rows, width)
    rows = [[*(_escaped(cell, form) for cell in named[row]), *scores[row]] for row in matrix.rows]
    return _marked_up([head, *facts, *matrix.columns], rows, form, numbers=len(matrix.columns))


def _facts(matrix: ScoreMatrix, row: str, facts: Sequence[str]) -> Sequence[str]:
    return matrix.facts.get(row, [""] * len(facts))


def rows_text(columns: Sequence[str], rows: Sequence[Sequence[str]], form: TableFormat) -> str:
    """A plain table of texts."""
    if form == "csv":
        return _csv([list(columns), *map(list, rows)])
    if form == "text":
        return table(columns, rows)
    return _marked_up(columns, [[_escaped(cell, form) for cell in row] for row in rows], form, numbers=0)


def _shown(cell: MatrixCell | None, form: TableFormat) -> str:
    if cell is None or cell.result.score is None:
        return "-" if form != "latex" else "--"
    result = cell.result
    assert result.score is not None
    score = result.shown(result.score)
    interval = (
        ""
        if result.low is None or result.high is None
        else f"[{result.shown(result.low)}, {result.shown(result.high)}]"
    )
    unfinished = "" if result.status == "complete" else "†"
    if form == "markdown":
        score = f"**{score}**" if cell.best else score
        return f"{score}{unfinished} {interval}".rstrip()
    if form == "latex":
        score = rf"\textbf{{{score}}}" if cell.best else score
        unfinished = r"$^\dagger$" if unfinished else ""
        return rf"{score}{unfinished} {{\scriptsize {interval}}}" if interval else f"{score}{unfinished}"
    return f"{score}{unfinished}{'*' if cell.best else ''} {interval}".rstrip()


def _marked_up(
    columns: Sequence[str], rows: Sequence[Sequence[str]], form: TableFormat, *, numbers: int
) -> str:
    heads = [_escaped(column, form) for column in columns]
    if form == "markdown":
        rule = ["---"] * (len(heads) - numbers) + ["---:"] * numbers
        return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, rule, *rows))
    letters = "l" * (len(heads) - numbers) + "r" * numbers
    body = "".join(f"{' & '.join(cells)} \\\\\n" for cells in rows)
    return (
        f"\\begin{{tabular}}{{{letters}}}\n\\hline\n{' & '.join(heads)} \\\\\n\\hline\n{body}\\hline\n"
        "\\end{tabular}\n"
    )


def _matrix_csv(matrix: ScoreMatrix, heads: Sequence[str]) -> str:
    names = [
        f"{column}{end}" for column in matrix.columns for end in ("", " low", " high", " best", " status")
    ]
    lines = [[*heads, *names]]
    for row in matrix.rows:
        cells: list[str] = []
        for column in matrix.columns:
            cell = matrix.cells.get((row, column))
            if cell is None:
                cells += [""] * 5
                continue
            found = cell.result
            numbers = ["" if value is None else repr(value) for value in (found.score, found.low, found.high)]
            cells += [*numbers, str(cell.best).lower(), found.status]
        lines.append([row, *_facts(matrix, row, heads[1:]), *cells])
    return _csv(lines)


def _csv(lines: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[no_formula(cell) for cell in line] for line in lines])
    return text.getvalue()


def _escaped(text: str, form: TableFormat) -> str:
    line = " ".join(text.split())
    if form == "latex":
        return "".join(_LATEX.get(character, character) for character in line)
    return line.replace("\\", "\\\\").replace("|", "\\|") if form == "markdown" else line
