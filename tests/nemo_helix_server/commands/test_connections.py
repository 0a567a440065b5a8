"""Clients that open connections and leave it at that do not keep the others waiting."""

import asyncio
import contextlib
import resource
import socket
import threading
import time

import httpx
import pytest
import uvicorn

from nemo_helix_server.commands import connections

pytestmark = pytest.mark.services

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def serve():
    running = []

    def start(app=hello, **limits):
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, http=connections.protocol(**limits), log_config=None, lifespan="off", timeout_keep_alive=60
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        running.append((server, thread))
        return listener.getsockname()

    yield start
    for server, thread in running:
        server.should_exit = server.force_exit = True
        thread.join(60)


def is_closed(connection):
    """Whether the other side ends it, which it is given time for."""
    connection.settimeout(60)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GE", HEAD, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-One: "])
def test_a_request_that_does_not_come_ends_its_connection(serve, sent):
    with socket.create_connection(serve(most=10, timeout=0.2)) as connection:
        connection.sendall(sent)
        assert is_closed(connection)


def test_the_second_request_of_a_connection_may_not_be_left_half_either(serve):
    with socket.create_connection(serve(most=10, timeout=0.2)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET / HT")
        assert is_closed(connection)


def test_a_connection_that_rests_between_requests_is_kept(serve):
    with socket.create_connection(serve(most=10, timeout=0.1)) as connection:
        for _ in range(2):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
            time.sleep(0.5)  # what is tested: nothing happens meanwhile


def test_one_connection_too_many_is_closed_and_others_go_on(serve):
    place = serve(most=2, timeout=60)
    url = f"http://{place[0]}:{place[1]}/"
    with httpx.Client(trust_env=False) as http, socket.create_connection(place) as idle:
        assert http.get(url).status_code == 200
        with socket.create_connection(place) as third:
            assert is_closed(third)
        assert http.get(url).status_code == 200
        idle.close()


def test_as_many_files_as_allowed_can_be_open():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
        most = connections.raise_file_limit()
        now = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert now == (min(hard, 65_536), hard)
        assert 0 < most < now[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_rest_of_a_body_that_nobody_wants_is_dropped_until_it_ends(serve):
    with socket.create_connection(serve(most=10, timeout=60)) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        connection.sendall(b"x" * 100 + b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("rest", [b"", b"x"])
def test_the_rest_of_a_body_that_nobody_wants_ends_its_connection(serve, rest):
    with socket.create_connection(serve(most=10, timeout=0.2)) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        connection.sendall(rest)
        assert is_closed(connection)


def test_what_is_left_of_an_endless_body_does_not_keep_its_connection(serve):
    head = HEAD.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked")
    with socket.create_connection(serve(most=10, timeout=0.3)) as connection:
        connection.sendall(head + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        threading.Thread(target=send_on, args=(connection,)).start()
        assert is_closed(connection)


def send_on(connection):
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b"4\r\nmore\r\n")
            time.sleep(0.01)
