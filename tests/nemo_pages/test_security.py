"""Headers of every answer, hosts that are answered for, and pages below a path."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from nemo_pages.security import BelowPath, KnownHosts, SecurityHeaders, host_name


async def _path(request):
    return PlainTextResponse(f"{request.scope['root_path']}|{request.path_params['rest']}")


APP = Starlette(routes=[Route("/{rest:path}", _path)])


def test_every_answer_forbids_scripts_frames_and_forms_of_others():
    found = TestClient(SecurityHeaders(APP)).get("/x").headers
    policy = dict(part.split(" ", 1) for part in found["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    assert (found["x-content-type-options"], found["referrer-policy"]) == ("nosniff", "same-origin")
    assert found["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("root", "asked", "answer"),
    [
        ("", "/a/b", "|a/b"),
        ("/p/1", "/p/1/a", "/p/1|a"),
        ("/p/1", "/a", "/p/1|a"),
        ("/p/1/", "/p/1", "/p/1|"),
        ("/p/1", "/p/12/a", "/p/1|p/12/a"),
    ],
)
def test_pages_answer_below_a_path_that_a_proxy_keeps_or_takes_away(root, asked, answer):
    assert TestClient(BelowPath(APP, root)).get(asked).text == answer


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("127.0.0.1:8000", 200), ("LOCALHOST", 200), ("[::1]:8000", 200)),
        *(("evil.example:8000", 421), ("127.0.0.1.evil.example", 421), ("", 421)),
    ],
)
def test_a_name_of_a_stranger_that_leads_here_is_refused(host, status):
    app = KnownHosts(APP, {"127.0.0.1", "localhost", "::1"})
    assert TestClient(app).get("/", headers={"host": host}).status_code == status


def test_the_port_is_no_part_of_a_hosts_name():
    assert (host_name("a:1"), host_name("[::1]:1"), host_name("a")) == ("a", "::1", "a")
