"""Only the person with the key gets pages, and no history keeps the key."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from nemo_pages.access import KeyRequired
from nemo_pages.rendering import Rendering
from nemo_pages.security import BelowPath
from nemo_pages.static_files import static_route


async def _path(request):
    return PlainTextResponse(str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""))


def client(root=""):
    app = Starlette(routes=[static_route(), Route("/{rest:path}", _path)])
    guarded = KeyRequired(app, Rendering(program="x"), key="secret", name="view", root_path=root)
    return TestClient(BelowPath(guarded, root))


@pytest.mark.parametrize(
    "address", ["/", "/evaluations/a", "/pages/events?topic=runs", "/?key=", "/?key=s\xe9"]
)
def test_without_the_key_there_is_nothing_but_a_sentence(address):
    found = client().get(address)
    assert found.status_code == 401
    assert "Open the address that the server printed" in found.text


def test_the_key_becomes_a_cookie_that_scripts_and_other_sites_cannot_use():
    pages = client("/user/ann/proxy/1")
    found = pages.get("/a%20b?q=x+y&key=secret&q=z", follow_redirects=False)
    assert found.status_code == 303
    assert found.headers["location"] == "/user/ann/proxy/1/a%20b?q=x+y&q=z"
    cookie = found.headers["set-cookie"]
    assert cookie.startswith("view=secret; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/user/ann/proxy/1/"} <= set(cookie.split("; "))
    assert pages.get("/user/ann/proxy/1/b").status_code == 200


def test_no_address_leads_to_another_host():
    found = client().get("http://testserver//evil.example/?key=secret", follow_redirects=False)
    assert found.headers["location"] == "/evil.example/"


def test_a_wrong_cookie_is_refused_and_static_files_need_none():
    pages = client()
    pages.cookies.set("view", "guess")
    assert pages.get("/").status_code == 401
    assert pages.get("/pages/static/pages.css").status_code == 200


def test_a_request_that_would_change_something_gets_no_cookie_for_a_key():
    assert client().post("/?key=secret").status_code == 401
