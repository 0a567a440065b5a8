"""Blanks at the ends of lines that were drawn."""

import io

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from nemo_runs.drawn_tables import trimmed


def drawn(*, terminal: bool) -> str:
    table = Table.grid(padding=(0, 2))
    table.add_row("short", Text("a note that is longer than the line is wide", style="red"))
    table.add_row("a longer name", "")
    table.add_row("", "x")
    file = io.StringIO()
    Console(file=file, width=40, force_terminal=terminal).print(Group(Text("head  "), table))
    return trimmed(file.getvalue())


def test_no_line_ends_in_a_blank_and_nothing_else_is_changed():
    assert drawn(terminal=False).split("\n") == [
        "head",
        "short          a note that is longer",
        "               than the line is wide",
        "a longer name",
        "               x",
        "",
    ]


def test_colours_stay_on_a_terminal():
    assert "\x1b[31mthan the line is wide\x1b[0m\n" in drawn(terminal=True)
