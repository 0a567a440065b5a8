"""Single values as people see them."""

from __future__ import annotations

from datetime import UTC, datetime

from nemo_helix_plugin.cli.output import cells, tables

NOW = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)
SHORT = cells.DisplayOptions(NOW, seconds=False)
TIME = "2026-11-29T17:59:18.5Z"


def test_the_moment_of_a_change_keeps_its_seconds_where_other_times_lose_them() -> None:
    assert cells.cell("at", TIME, SHORT).plain == "2026-11-29T17:59:18Z"
    assert cells.cell("created_at", TIME, SHORT).plain == "2026-11-29T17:59Z"


def test_a_narrow_table_drops_what_the_order_says_already_before_it_squeezes_the_note() -> None:
    note = ("note", lambda _: "it failed " * 9)
    records = [{"seq": 0, "id": "platform-job-attempt-1", "is_current": True}]

    def columns(width: int | None) -> list[str]:
        made = tables.table(records, ["seq", "id", "is_current"], SHORT, width=width, extra=note)
        return [str(column.header) for column in made.columns]

    assert columns(None) == ["seq", "id", "is current", "note"]
    assert columns(50) == ["seq", "id", "note"]
