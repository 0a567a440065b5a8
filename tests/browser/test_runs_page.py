"""The page Runs in a browser: as it looks, with the keyboard, and live."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from playwright.sync_api import expect
from tests.browser.looking import look
from tests.browser.run_rows import some_rows

from nemo_gym.pages.viewing import view_application
from nemo_pages.runs.table import RunTable, SourceState

pytestmark = pytest.mark.services


@pytest.fixture
def table():
    """Rows of each kind, seen just now."""
    made = RunTable()
    shift = time.time() - max(row.submitted_at for row in some_rows())
    rows = [replace(row, submitted_at=row.submitted_at + shift) for row in some_rows()]
    made.put("evaluations", rows, complete=True)
    made.observed(SourceState("evaluations", time.time()))
    return made


def test_the_list_looks_right_in_light_dark_and_on_a_phone(page, serve, table):
    page.goto(serve(view_application(table)).address)
    expect(page.locator("tbody tr")).to_have_count(8)
    expect(page.locator("#live")).to_have_attribute("data-live", "stream")
    assert look(page, "runs") == []
    assert page.locator("script:not([src])").count() == 0
    expect(page.get_by_text('<script>alert("x")</script>⟨U+202E⟩cod.exe␛[31m', exact=True)).to_be_visible()


def test_nothing_and_an_unknown_address_look_right(page, serve):
    empty = RunTable()
    empty.observed(SourceState("evaluations", time.time()))
    served = serve(view_application(empty))
    page.goto(served.address)
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    assert look(page, "runs-empty") == []
    page.goto(f"{served.address}/evaluations/of/nobody")
    assert look(page, "not-found") == []
