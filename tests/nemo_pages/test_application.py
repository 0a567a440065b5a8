"""The application: errors as pages, parts for scripts, events, and addresses below a path."""

from __future__ import annotations

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.browser.run_rows import some_rows

from nemo_gym.pages.viewing import view_application
from nemo_pages.application import pages_application
from nemo_pages.errors import NoSuchPageError
from nemo_pages.rendering import Rendering
from nemo_pages.runs.table import RunTable


@pytest.fixture
def table():
    made = RunTable()
    made.put("evaluations", some_rows(), complete=True)
    return made


async def _broken(request):
    raise RuntimeError("a secret")


async def _missing(request):
    raise NoSuchPageError("There is no run <b>x</b>.")


def client(**options):
    routes = [Route("/broken", _broken), Route("/missing", _missing)]
    app = pages_application(routes, Rendering(program="test"), versions=lambda topics: {}, **options)
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize(("path", "status"), [("/broken", 500), ("/missing", 404), ("/nothing", 404)])
def test_an_error_is_a_page_with_the_headers_of_all_pages_and_no_traceback(path, status):
    found = client().get(path)
    assert found.status_code == status
    assert "<h1>" in found.text
    assert "a secret" not in found.text
    assert "<b>x" not in found.text
    assert "content-security-policy" in found.headers


def test_a_script_gets_the_part_of_an_error_alone():
    found = client().get("/missing", headers={"hx-request": "true"})
    said = "<strong>Not Found.</strong> There is no run &lt;b&gt;x&lt;/b&gt;."
    assert found.text.strip() == f'<div class="problem" role="alert">{said}</div>'


def test_no_page_has_script_or_style_of_its_own_or_an_address_elsewhere(table):
    text = TestClient(view_application(table)).get("/").text
    assert "<style" not in text
    assert " style=" not in text
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_a_script_gets_the_list_alone_and_the_browsers_history_the_whole_page(table):
    pages = TestClient(view_application(table))
    part = pages.get("/?q=gpqa", headers={"hx-request": "true"})
    assert part.text.lstrip().startswith("<section")
    assert part.headers["vary"] == "HX-Request"
    whole = pages.get("/", headers={"hx-request": "true", "hx-history-restore-request": "true"})
    assert whole.text.lstrip().startswith("<!doctype html>")


def test_every_address_of_a_page_lies_below_the_root_path(table):
    text = TestClient(view_application(table, root_path="/user/ann/proxy/1")).get("/").text
    addresses = [
        part.split('"')[0]
        for name in ("href", "src", "action", "hx-get", "data-events", "data-versions")
        for part in text.split(f' {name}="')[1:]
    ]
    assert len(addresses) > 20
    assert [each for each in addresses if not each.startswith(("/user/ann/proxy/1/", "#"))] == []


def test_a_view_that_means_nothing_is_refused_with_its_reason(table):
    found = TestClient(view_application(table)).get("/?sort=luck")
    assert found.status_code == 400
    assert "cannot be sorted by" in found.text
    assert '<a href="/" class="button main-action">Show this page as usual</a>' in found.text


def test_the_versions_of_topics_change_with_the_rows(table):
    pages = TestClient(view_application(table))
    before = pages.get("/pages/versions?topic=runs&topic=other").json()
    assert list(before) == ["runs"]
    table.remove([some_rows()[0].key])
    assert pages.get("/pages/versions?topic=runs").json() != before
