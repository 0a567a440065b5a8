"""What the server of a trained model refuses, and when; other tests show what it computes with a real one."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_engines.answering.loaded import Piece
from nemo_engines.answering.server import AnswerServer

KEY = "the-key"
GOOD = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def port() -> Iterator[int]:
    models: Any = SimpleNamespace(names=["m"], answer=lambda *_: (one for one in [Piece("Hi", "stop", 1, 1)]))
    with AnswerServer(("127.0.0.1", 0), models, KEY) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def asked(port: int, body: bytes, key: str = KEY) -> tuple[int, Any, str | None]:
    """Status, document, and what is said of the connection."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        headers = {"Authorization": f"Bearer {key}"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers["Connection"]


def test_who_has_the_key_is_answered_on_a_connection_that_stays(port: int) -> None:
    status, document, connection = asked(port, json.dumps(GOOD).encode())
    assert (status, document["choices"][0]["message"]["content"], connection) == (200, "Hi", None)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("Content-Length: 60000000", b"401"),
        ("Content-Length: 60000000\r\nAuthorization: Bearer another", b"401"),
        (f"Content-Length: 70000000\r\nAuthorization: Bearer {KEY}", b"413"),
        (f"Transfer-Encoding: chunked\r\nAuthorization: Bearer {KEY}", b"411"),
    ],
)
def test_a_request_is_refused_before_a_byte_of_its_body_is_read(port: int, head: str, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))  # until the server closes
    assert answer.split()[1] == status
    assert b"Connection: close" in answer


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b"[]", b"null", b"\xff"])
def test_a_body_that_cannot_be_read_is_answered(port: int, body: bytes) -> None:
    assert asked(port, body)[0] == 400
