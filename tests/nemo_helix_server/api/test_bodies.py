"""Which bodies are taken: their JSON, their size, and how fast they come."""

import anyio
import orjson
import pytest
from starlette.datastructures import Headers

from nemo_helix_server.api import bodies
from nemo_helix_server.errors import InvalidError, MalformedRequestError

pytestmark = pytest.mark.services

JSON = {"content-type": "application/json"}


def received(*parts, then=None):
    """What gives a body part by part."""
    waiting = list(parts)

    async def receive():
        if waiting:
            return {
                "type": "http.request",
                "body": waiting.pop(0),
                "more_body": bool(waiting) or then is not None,
            }
        if then is not None:
            return await then()
        return {"type": "http.disconnect"}

    return receive


def read(*parts, headers=JSON, then=None):
    return anyio.run(bodies.read_json, Headers(headers), received(*parts, then=then))


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1}',
        b"[]",
        b'{"big": 9223372036854775807}',
        b'"\\u00e9"',
        b'{"digits": "12345678901234567890123"}',
        b'{"a": {"a": [{"a": 1}, {"a": 2}]}}',
        b'{"a:b": "c:d,\\"e\\":", "\\\\": ":"}',
        b'["a", ":", "\\\\", {"x": "\\""}]',
        b'"' + b",[{" * 400_000 + b'"',
    ],
)
def test_plain_json_comes_through_unchanged(body):
    assert read(body) == (body, orjson.loads(body))


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (b"{", MalformedRequestError, "not JSON"),
        (b"NaN", InvalidError, "holds NaN, which is not a number"),
        (b'{"a": Infinity}', InvalidError, "holds Infinity, which is not a number"),
        (b'"\xff"', MalformedRequestError, "not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', MalformedRequestError, "not JSON"),
        ('{"a": 1}'.encode("utf-16"), MalformedRequestError, "not JSON"),
        (b'"\\ud800"', InvalidError, "half of a character"),
        (b"1e999", InvalidError, "too large"),
        (b"[" * 50_000, InvalidError, "too deep"),
        (b'"a\\u0000b"', InvalidError, "NUL"),
        (b'{"a\\u0000": 1}', InvalidError, "NUL"),
        (b"[" * 500 + b"]" * 500, InvalidError, "deeper"),
        (b'{"a": [123456789012345678901234567890]}', InvalidError, "64 bits"),
        (b'{"a": -9223372036854775809}', InvalidError, "64 bits"),
        (b'{"a": 9223372036854775808}', InvalidError, "9223372036854775808; at most"),
        (b'{"role": "read", "role": "admin"}', InvalidError, "more than once"),
        (b'{"x": [{"a": 1, "\\u0061": 2}]}', InvalidError, "more than once"),
    ],
)
def test_json_that_not_every_reader_takes_is_refused(body, error, words):
    with pytest.raises(error, match=words):
        read(body)


@pytest.mark.parametrize("body", [b"[" + b"[]," * 600_000 + b"[]]", b"[" + b"0," * 1_000_000 + b"0]"])
def test_many_small_values_are_refused_before_they_are_made(body):
    assert len(body) < bodies.LARGEST_BODY
    with pytest.raises(bodies.TooLargeError, match="values"):
        read(body)


@pytest.mark.parametrize("body", [b'"' + b'\\"' * 500_000 + b",", b'"\\' * 300_000 + b"," * 600_000])
def test_texts_are_found_in_one_pass(body):
    """A search that begins anew at every quote would take hours."""
    with pytest.raises((MalformedRequestError, bodies.TooLargeError)):
        read(b"," * 600_000 + body)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "é"]
)
def test_a_body_must_say_that_it_is_json(kind):
    with pytest.raises(bodies.UnsupportedMediaError, match="application/json"):
        read(b"{}", headers={"content-type": kind})


def test_a_request_without_a_body_needs_no_type():
    assert read(b"", headers={}) == (b"", None)
    assert read(b"{}", headers={"content-type": "application/merge-patch+json; charset=utf-8"})[1] == {}


def test_a_large_body_is_refused_before_it_is_read():
    taken = []

    async def receive():
        taken.append(1)
        return {"type": "http.request", "body": b" " * 2**20, "more_body": True}

    with pytest.raises(bodies.TooLargeError):
        anyio.run(bodies.read, Headers({"content-length": str(bodies.LARGEST_BODY + 1)}), receive)
    assert not taken
    with pytest.raises(bodies.TooLargeError):
        anyio.run(bodies.read, Headers({}), receive)
    assert len(taken) == bodies.LARGEST_BODY // 2**20 + 1


@pytest.mark.parametrize("length", ["-1", "x", "1" * 30, "²"])
def test_a_length_that_is_none_is_refused(length):
    with pytest.raises((MalformedRequestError, bodies.TooLargeError)):
        read(b"{}", headers={**JSON, "content-length": length})


def test_a_body_that_does_not_come_is_given_up(monkeypatch):
    monkeypatch.setattr(bodies, "PART_TIMEOUT", 0.05)
    for parts in ((), (b"[",)):
        with pytest.raises(bodies.TooSlowError):
            read(*parts, then=anyio.sleep_forever)


def test_a_body_that_drips_is_given_up(monkeypatch):
    monkeypatch.setattr(bodies, "WHOLE_WITHIN", 0.2)

    async def drop():
        await anyio.sleep(0.001)
        return {"type": "http.request", "body": b" ", "more_body": True}

    with pytest.raises(bodies.TooSlowError):
        read(then=drop)


def read_file(receive):
    async def go():
        part, size, more = bodies.paced(receive), 0, True
        while more:
            message = await part()
            size, more = size + len(message["body"]), message["more_body"]
        return size

    return anyio.run(go)


def test_a_file_that_keeps_coming_may_be_large(monkeypatch):
    monkeypatch.setattr(bodies, "PART_TIMEOUT", 5.0)
    assert read_file(received(*[b"x" * 2**20] * 20)) == 20 * 2**20


def test_a_file_that_drips_is_given_up(monkeypatch):
    monkeypatch.setattr(bodies, "PART_TIMEOUT", 0.2)

    async def drop():
        await anyio.sleep(0.001)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(bodies.TooSlowError, match="send it again"):
        read_file(received(b"x" * 2**20, then=drop))
    with pytest.raises(bodies.TooSlowError):
        read_file(received(then=anyio.sleep_forever))


def test_what_we_take_to_write_a_file_does_not_count(monkeypatch):
    monkeypatch.setattr(bodies, "PART_TIMEOUT", 0.2)

    async def go():
        part = bodies.paced(received(b"a", b"b", b""))
        for _ in range(3):
            await part()
            await anyio.sleep(0.3)  # a slow disk
        return True

    assert anyio.run(go)
