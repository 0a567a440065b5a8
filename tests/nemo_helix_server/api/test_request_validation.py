"""What every request goes through before any route: its target's text and length, and its origin."""

import json

import httpx
import pytest

from nemo_helix_server.api.request_validation import RequestValidation

pytestmark = pytest.mark.services


async def echo(scope, receive, send):
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def client(*, loopback_only=True):
    transport = httpx.ASGITransport(RequestValidation(echo, loopback_only=loopback_only))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:8080")


async def ask(method, path, *, loopback_only=True, **values):
    async with client(loopback_only=loopback_only) as http:
        return await http.request(method, path, **values)


def run(*args, **values):
    import anyio

    return anyio.run(lambda: ask(*args, **values))


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/a%00b", 400),
        ("/a%FFb", 400),
        ("/?q=%00", 400),
        ("/?q=%C3%28", 400),
        ("/?q=%ED%A0%80", 400),
        ("/a%C3%A9", 200),
        ("/?q=" + "x" * 20_000, 414),
    ],
)
def test_path_and_query_are_text(target, status):
    assert run("GET", target).status_code == status


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "LOCALHOST.", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]"]
)
def test_on_loopback_names_of_loopback_are_answered(host):
    assert run("GET", "/x", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "10.0.0.1",
        "127.0.0.1.nip.io",
        "[::2]",
        "0.0.0.0",
        "",
    ],
)
def test_on_loopback_other_names_are_not_for_us(host):
    answer = run("GET", "/x", headers={"host": host})
    assert answer.status_code == 421
    assert run("GET", "/x", headers={"host": host}, loopback_only=False).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_is_changed_on_behalf_of_another_site(method, headers):
    for loopback_only in (True, False):
        assert run(method, "/x", headers=headers, loopback_only=loopback_only).status_code == 403
        assert run("GET", "/x", headers=headers, loopback_only=loopback_only).status_code == 200


def test_our_own_pages_and_clients_may_change_things():
    assert (
        run(
            "POST", "/x", headers={"origin": "http://localhost:8080", "sec-fetch-site": "same-origin"}
        ).status_code
        == 200
    )
    assert run("POST", "/x").status_code == 200


def test_a_refusal_is_a_json_sentence():
    answer = run("GET", "/x", headers={"host": "evil.example"})
    assert answer.headers["content-type"] == "application/json"
    assert set(json.loads(answer.content)) == {"detail"}


def test_a_body_has_one_length():
    headers = {"transfer-encoding": "chunked", "content-length": "5"}
    answer = run("POST", "/x", content=b"hello", headers=headers)
    assert answer.status_code == 400
    assert "not both" in answer.json()["detail"]
