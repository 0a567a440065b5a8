"""The page about the fields of specs is what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "write_customization_reference.py"


def test_the_page_is_up_to_date() -> None:
    written = runpy.run_path(str(SCRIPT))
    assert written["PAGE"].read_text(encoding="utf-8") == written["page"]()


def test_every_field_has_a_fate() -> None:
    text = runpy.run_path(str(SCRIPT))["page"]()
    rows = [line for line in text.splitlines() if line.startswith("| `") and line.count("|") == 4]
    assert len(rows) > 200
    assert [row for row in rows if row.rsplit("|", 2)[1].strip() == ""] == []
