"""Pages as files: every link leads to a file, nothing is written outside, and what is left out says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.browser.run_rows import many_rows, some_rows

from nemo_gym.pages.viewing import view_application
from nemo_pages.bundle import write_bundle
from nemo_pages.links import bundled_file
from nemo_pages.runs.table import RunTable


@pytest.fixture
def table():
    made = RunTable()
    made.put("evaluations", some_rows())
    return made


def links(path: Path) -> list[str]:
    return re.findall(r' (?:href|src|action)="([^"#]+)"', path.read_text(encoding="utf-8"))


def test_every_link_leads_to_a_file_of_the_bundle(table, tmp_path):
    write_bundle(view_application(table), tmp_path / "b")
    pages = list((tmp_path / "b").rglob("*.html"))
    assert len(links(tmp_path / "b" / "index.html")) > 10
    for page in pages:
        for link in links(page):
            target = (page.parent / link).resolve()
            assert target.is_file(), f"{page}: {link}"
            assert (tmp_path / "b") in target.parents
    assert not list((tmp_path / "b").rglob("htmx*"))


def test_a_bundle_asks_nobody_and_offers_nothing_that_needs_a_server(table, tmp_path):
    write_bundle(view_application(table), tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "hx-get" not in text
    assert "data-events" not in text
    assert "<form" not in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


def test_all_pages_of_a_list_are_written(tmp_path):
    table = RunTable()
    table.put("evaluations", many_rows(120))
    write_bundle(view_application(table), tmp_path, keep=lambda address: address.partition("?")[0] == "/")
    names = {path.name for path in tmp_path.glob("*.html")}
    assert {"index.html", "page-2.html", "page-3.html", "state-failed.html"} <= names
    assert "job-000119" in (tmp_path / "page-3.html").read_text(encoding="utf-8")


def test_what_is_left_out_is_counted_and_replaced_by_a_page_that_says_so(table, tmp_path):
    written = write_bundle(
        view_application(table), tmp_path, keep=lambda address: "humaneval" not in address, most_pages=3
    )
    assert written.pages == 3
    assert len(written.left_out) > 5
    for address in written.left_out:
        assert "Not in this bundle" in (tmp_path / bundled_file(address)).read_text(encoding="utf-8")
