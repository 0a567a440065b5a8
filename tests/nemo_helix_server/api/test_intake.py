"""What every request goes through: size, text, JSON, and where it comes from."""

import json

import httpx
import pytest

from nemo_helix_server.api import intake
from nemo_helix_server.api.intake import Intake


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
    transport = httpx.ASGITransport(Intake(echo, loopback_only=loopback_only))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:8080")


async def ask(method, path, *, loopback_only=True, **values):
    async with client(loopback_only=loopback_only) as http:
        return await http.request(method, path, **values)


def run(*args, **values):
    import anyio

    return anyio.run(lambda: ask(*args, **values))


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1}',
        b"[]",
        b'{"big": 9223372036854775807}',
        b'"\\u00e9"',
        b'{"digits": "12345678901234567890123"}',
    ],
)
def test_plain_json_comes_through_unchanged(body):
    answer = run("POST", "/x", content=body, headers=JSON)
    assert (answer.status_code, answer.content) == (200, body)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"NaN", 400, "not JSON"),
        (b'"\xff"', 400, "not JSON"),
        (b'"\\ud800"', 400, "not JSON"),
        (b"1e999", 400, "not JSON"),
        (b"[" * 50_000, 400, "not JSON"),
        (b'"a\\u0000b"', 422, "NUL"),
        (b'{"a\\u0000": 1}', 422, "NUL"),
        (b"[" * 500 + b"]" * 500, 422, "deeper"),
        (b'{"a": [123456789012345678901234567890]}', 422, "64 bits"),
    ],
)
def test_json_that_not_every_reader_takes_is_refused(body, status, words):
    answer = run("POST", "/x", content=body, headers=JSON)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "é"]
)
def test_a_body_must_say_that_it_is_json(kind):
    answer = run("POST", "/x", content=b"{}", headers={"content-type": kind.encode()})
    assert answer.status_code == 415
    assert "application/json" in answer.json()["detail"]


def test_a_request_without_a_body_needs_no_type():
    assert run("POST", "/x").status_code == 200
    assert (
        run(
            "POST",
            "/x",
            content=b"{}",
            headers={"content-type": "application/merge-patch+json; charset=utf-8"},
        ).status_code
        == 200
    )


def test_a_large_body_is_refused_before_it_is_read():
    answer = run("POST", "/x", content=b" " * (intake.LARGEST_BODY + 1), headers=JSON)
    assert answer.status_code == 413

    async def pieces():
        for _ in range(9):
            yield b" " * 2**20

    assert run("POST", "/x", content=pieces(), headers=JSON).status_code == 413


@pytest.mark.parametrize("length", ["-1", "x", "1" * 30, "²"])
def test_a_length_that_is_none_is_refused(length):
    answer = run("POST", "/x", content=b"{}", headers={**JSON, "content-length": length.encode()})
    assert answer.status_code in {400, 413}


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
