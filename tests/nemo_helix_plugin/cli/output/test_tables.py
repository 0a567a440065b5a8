"""Tables on terminals that are too narrow for them."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from nemo_helix_plugin.cli.output import cells, tables

DISPLAY = cells.DisplayOptions(now=datetime(2026, 11, 29, 16, 0, tzinfo=UTC))
ATTEMPT = {
    "seq": 0,
    "id": "platform-job-attempt-rVp6yLLbdCaZyw3Niodzru",
    "status": "completed",
    "created_at": "2026-11-01T10:00:00Z",
    "is_current": True,
}


def lines(width, note=""):
    made = tables.table(
        [ATTEMPT],
        ["seq", "id", "status", "created_at", "is_current"],
        DISPLAY,
        width=width,
        extra=("note", lambda _: note),
    )
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(made)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_column_that_can_be_done_without_makes_place_for_whole_identifiers():
    assert lines(80) == [
        "seq  id                                           status     created at",
        "  0  platform-job-attempt-rVp6yLLbdCaZyw3Niodzru  completed  2026-11-01T10:00Z",
    ]


@pytest.mark.parametrize("width", [72, 80, 90])
def test_where_nothing_can_be_left_out_the_identifier_is_folded_and_nothing_else(width):
    head, row, *_ = lines(width, "the step training exited with status 1")
    assert head.split() == ["seq", "id", "status", "created", "at", "note"]
    assert "completed" in row
    assert "2026-11-01T10:00Z" in row
