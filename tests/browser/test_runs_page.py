"""The page Runs in a browser: as it looks, with the keyboard, and live."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from playwright.sync_api import expect
from tests.browser.looking import look, screenshot, violations
from tests.browser.run_rows import some_rows

from nemo_gym.pages.viewing import view_application
from nemo_pages.bundle import write_bundle
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
    expect(
        page.get_by_text('<script>alert("x")</script>⟨U+202E⟩cod.exe⟨ESC⟩[31m', exact=True)
    ).to_be_visible()


def test_nothing_and_an_unknown_address_look_right(page, serve):
    empty = RunTable()
    empty.observed(SourceState("evaluations", time.time()))
    served = serve(view_application(empty))
    page.goto(served.address)
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    assert look(page, "runs-empty") == []
    page.goto(f"{served.address}/evaluations/of/nobody")
    assert look(page, "not-found") == []


def test_the_list_is_searched_sorted_and_chosen_by_keyboard_and_its_address_says_so(page, serve, table):
    address = serve(view_application(table)).address
    page.goto(address)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_role("searchbox").press_sequentially("team=eval")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page).to_have_url(f"{address}/?q=team%3Deval")
    assert page.evaluate("document.activeElement.id") == "q"
    page.get_by_role("link", name="Result").press("Enter")
    expect(page.locator("thead th[aria-sort=descending]")).to_have_text("Result")
    expect(page.locator("tbody th a").first).to_have_text("arithmetic")
    page.locator("#column-menu summary").press("Enter")
    page.get_by_label("temperature").press("Space")
    expect(page.locator("thead")).to_contain_text("temperature")
    expect(page.locator("#column-menu")).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(page.locator("#column-menu")).not_to_have_attribute("open", "")
    shared = page.url
    page.reload()
    assert page.url == shared
    expect(page.locator("tbody td.col-value").first).to_contain_text("0.7")
    page.go_back()
    expect(page.locator("thead")).not_to_contain_text("temperature")
    assert violations(page) == []


def test_a_change_arrives_by_itself_and_leaves_what_a_person_is_doing_alone(page, serve, table):
    page.goto(serve(view_application(table)).address)
    expect(page.locator("#live")).to_have_attribute("data-live", "stream")
    for number in (0, 1):
        page.locator("tbody input[name=runs]").nth(number).check()
    page.locator("#column-menu summary").click()
    page.get_by_role("searchbox").evaluate("each => each.value = 'half a wo'")
    page.get_by_role("searchbox").focus()
    table.put("evaluations", [replace(table.row(some_rows()[0].key), state="finishing")])
    expect(page.get_by_text("finishing")).to_be_visible()
    expect(page.get_by_role("searchbox")).to_have_value("half a wo")
    expect(page.get_by_role("searchbox")).to_be_focused()
    expect(page.locator("tbody input[name=runs]:checked")).to_have_count(2)
    expect(page.get_by_role("button", name="Compare 2 runs")).to_be_enabled()
    expect(page.locator("#column-menu")).to_have_attribute("open", "")


def test_a_lost_connection_is_shown_and_ends_by_itself(page, serve, table):
    served = serve(view_application(table))
    page.goto(served.address)
    expect(page.locator("#live")).to_have_attribute("data-live", "stream")
    expect(page.locator("#lost")).to_be_hidden()
    served.stop()
    expect(page.locator("#lost")).to_be_visible()
    expect(page.locator("#lost")).to_contain_text("What you see is as of")
    expect(page.locator("#live")).to_contain_text("connection lost")
    screenshot(page, "runs-lost")
    assert violations(page) == []
    table.remove([some_rows()[0].key])
    serve(view_application(table), served.port)
    expect(page.locator("#lost")).to_be_hidden()
    expect(page.locator("tbody tr")).to_have_count(7)


def test_eight_windows_share_three_streams_and_all_of_them_stay_true(page, serve, table):
    served = serve(view_application(table))
    windows = [page, *(page.context.new_page() for _ in range(7))]
    for window in windows:
        window.goto(served.address)
        expect(window.locator("#live")).to_have_attribute("data-live", re.compile("stream|polling"))
    kinds = [window.locator("#live").get_attribute("data-live") for window in windows]
    assert (kinds.count("stream"), kinds.count("polling")) == (3, 5)
    table.remove([some_rows()[0].key])
    for window in windows:
        expect(window.locator("tbody tr")).to_have_count(7)
    first = windows[kinds.index("stream")]
    first.evaluate("""() => {
        Object.defineProperty(document, 'hidden', {value: true, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }""")
    expect(first.locator("#live")).to_have_attribute("data-live", "hidden")
    other = windows[kinds.index("polling")]
    expect(other.locator("#live")).to_have_attribute("data-live", "stream")


def test_the_list_works_without_scripts(browser, serve, table):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(serve(view_application(table)).address)
    page.get_by_role("searchbox").fill("math")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody time").first).to_contain_text("UTC")
    context.close()


@pytest.fixture
def bundle(table, tmp_path):
    """The pages as files."""
    write_bundle(view_application(table), tmp_path)
    return tmp_path


def test_a_bundle_opens_as_files_with_its_styles_and_scripts(bundle, page):
    page.goto((bundle / "index.html").as_uri())
    expect(page.locator("tbody tr")).to_have_count(8)
    expect(page.locator("html")).to_have_class("scripted")
    assert page.locator(".chip").first.evaluate("each => getComputedStyle(each).display") == "inline-flex"
    expect(page.locator("tbody time").first).to_contain_text("ago")
    page.get_by_role("link", name="Failed").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert look(page, "runs-bundle") == []
