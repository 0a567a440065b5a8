"""Every route of the application asks who it is first, and ends a body that is too large or never comes."""

import asyncio
import socket
import threading

import fastapi
import pytest
import uvicorn
from fastapi.routing import iter_route_contexts
from tests.nemo_helix_server.api.service_bench import Bench

from nemo_helix_server.api import bodies, guard
from nemo_helix_server.commands import connections

pytestmark = pytest.mark.services

VALUES = {
    "workspace": "default", "job": "none", "name": "none", "attempt": "current", "step": "training",
    "task": "task-1", "checkpoint": "c", "token": "none", "backend": "rl", "path": "a.txt",
    "provider": "cpu",
    "profile": "default",
}  # fmt: skip
OPEN = {("GET", "/health")}
SAFE = ("GET", "HEAD", "OPTIONS")
HUGE = 300 * 2**20
WAIT = 60
"""Seconds until a test gives up; nothing here takes so long."""


def fastapi_of(application):
    while not isinstance(application, fastapi.FastAPI):
        application = getattr(application, "api", None) or application._app
    return application


def guarded_routes(application):
    return [
        (found.original_route, found.path)
        for found in iter_route_contexts(fastapi_of(application).routes)
        if isinstance(found.original_route, guard.GuardedRoute)
    ]


class Door:
    """The service behind real HTTP, and how many bytes of bodies it read of each path."""

    def __init__(self, bench, timeout):
        self.bench = bench
        self.read = {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        config = uvicorn.Config(
            self._counted,
            http=connections.protocol(10_000, timeout=timeout),
            interface="asgi3",
            log_config=None,
            lifespan="off",
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve([self.listener])))
        self.thread.start()

    async def _counted(self, scope, receive, send):
        async def counting():
            message = await receive()
            read = self.read.get(scope["path"], 0) + len(message.get("body", b""))
            self.read[scope["path"]] = read
            return message

        await self.bench.application(scope, counting, send)

    def targets(self):
        """Method and path of everything that can be asked."""
        for route, path in guarded_routes(self.bench.application):
            for method in sorted(route.methods):
                yield method, path.replace(":path", "").format(**VALUES), route

    def ask(self, requests):
        """Send many at once; the status of each answer, `None` where the connection ended without one."""

        async def all_of_them():
            return await asyncio.gather(*(self._one(*request) for request in requests))

        return asyncio.run(all_of_them())

    async def _one(self, head, body):
        reader, writer = await asyncio.open_connection(*self.address)
        sending = asyncio.create_task(self._send(writer, head, body))
        try:
            async with asyncio.timeout(WAIT):
                line = await reader.readline()
                return int(line.split()[1]) if line else None
        except ConnectionError:
            return None
        finally:
            sending.cancel()
            writer.transport.abort()

    @staticmethod
    async def _send(writer, head, body):
        try:
            writer.write(head)
            for part in body:
                if isinstance(part, float):
                    await asyncio.sleep(part)
                    continue
                writer.write(part)
                await writer.drain()
        except ConnectionError:
            pass

    def close(self):
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(WAIT)


@pytest.fixture
def door(tmp_path, request):
    """A service with a timeout of so many seconds for headers and for what is not wanted of a body."""
    bench = Bench(tmp_path / "data", tokens_required=True)
    made = Door(bench, getattr(request, "param", WAIT))
    yield made
    made.close()
    bench.close()


def head(method, path, framing, token=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", framing]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = "Transfer-Encoding: chunked"
UNWANTED = {
    "announced and never sent": (f"Content-Length: {HUGE}", []),
    "announced and sent": (f"Content-Length: {HUGE}", [b"[" * 2**20] * 4),
    "chunked without end": (CHUNKED, [chunk(b"[" * 2**20)] * 4),
    "chunked and never sent": (CHUNKED, [b"ff"]),
    "shorter than announced": ("Content-Length: 100", [b"{}"]),
    "dripping": ("Content-Length: 100", [b" ", 0.01] * 10_000),
}


def test_every_route_says_who_may_use_it(door):
    application = fastapi_of(door.bench.application)
    unguarded = {
        found.path
        for found in iter_route_contexts(application.routes)
        if not isinstance(found.original_route, guard.GuardedRoute)
    }
    assert unguarded == {"/openapi.json"}
    assert len(list(door.targets())) > 60
    router = guard.make_router("/x")
    with pytest.raises(TypeError, match="must say once who may use it"):
        router.get("")(lambda: None)


@pytest.mark.parametrize("kind", UNWANTED)
def test_who_is_nobody_is_told_before_a_byte_is_read(door, kind):
    framing, body = UNWANTED[kind]
    targets = list(door.targets())
    answers = door.ask([(head(method, path, framing), body) for method, path, _ in targets])
    for (method, path, _), status in zip(targets, answers, strict=True):
        assert status == (200 if (method, path) in OPEN else 401), (method, path)
    assert sum(door.read.values()) == 0


@pytest.mark.parametrize("kind", UNWANTED)
def test_who_may_not_is_told_before_a_byte_is_read(door, kind):
    framing, body = UNWANTED[kind]
    token = door.bench.token("read", workspace="lab")
    targets = [
        (method, path)
        for method, path, _ in door.targets()
        if "/workspaces/default" in path or path.startswith("/apis/auth/")
    ]
    assert len(targets) > 50
    answers = door.ask([(head(method, path, framing, token), body) for method, path in targets])
    assert dict(zip(targets, answers, strict=True)) == dict.fromkeys(targets, 403)
    assert sum(door.read.values()) == 0


BAD = {
    "announced too large": (f"Content-Length: {HUGE}", [], 413),
    "chunked too large": (CHUNKED, [chunk(b" " * 2**20)] * 12, 413),
    "too deep": (CHUNKED, [chunk(b"[" * 500 + b"]" * 500), b"0\r\n\r\n"], 422),
    "a key twice": (CHUNKED, [chunk(b'{"a": 1, "a": 2}'), b"0\r\n\r\n"], 422),
    "not a number": (CHUNKED, [chunk(b'{"a": NaN}'), b"0\r\n\r\n"], 422),
    "never sent": ("Content-Length: 100", [], 408),
    "chunked and never sent": (CHUNKED, [b"ff\r\n"], 408),
    "shorter than announced": ("Content-Length: 100", [b"{}"], 408),
    "dripping": ("Content-Length: 99999", [b" ", 0.01] * 10_000, 408),
    "not a length": ("Content-Length: many", [b"{}"], 400),
    "two lengths": (f"{CHUNKED}\r\nContent-Length: 2", [chunk(b"{}"), b"0\r\n\r\n"], 400),
}


@pytest.mark.parametrize("kind", BAD)
def test_every_body_is_bounded(door, monkeypatch, kind):
    framing, body, expected = BAD[kind]
    if expected == 408:  # what comes in time is refused for what it is, however busy the machine
        monkeypatch.setattr(bodies, "PART_TIMEOUT", 1.0)
        monkeypatch.setattr(bodies, "WHOLE_WITHIN", 2.0)
    token = door.bench.token("admin")
    targets = [
        (method, path) for method, path, route in door.targets() if method not in SAFE and not route.streams
    ]
    assert len(targets) > 30
    answers = door.ask([(head(method, path, framing, token), body) for method, path in targets])
    assert dict(zip(targets, answers, strict=True)) == dict.fromkeys(targets, expected)
    asked = [path for _, path in targets]
    for path, read in door.read.items():
        assert read <= asked.count(path) * (bodies.LARGEST_BODY + 2**20)


SLOW = [kind for kind, (_, _, status) in BAD.items() if status == 408]


@pytest.mark.parametrize("kind", SLOW)
def test_a_file_must_keep_coming(door, monkeypatch, kind):
    monkeypatch.setattr(bodies, "PART_TIMEOUT", 0.5)
    framing, body, _ = BAD[kind]
    token = door.bench.token("operate")
    client = door.bench.client(token)
    path = "/apis/files/v2/workspaces/default/filesets"
    assert client.post(path, json={"name": "none"}).status_code == 201
    streams = [(method, path) for method, path, route in door.targets() if route.streams]
    assert [method for method, _ in streams] == ["PUT"]
    assert door.ask([(head(method, path, framing, token), body) for method, path in streams]) == [408]
    assert client.get(f"{path}/none/files").json()["data"] == []
    folders = list((door.bench.data_dir / "filesets").rglob(".parts"))
    assert folders
    assert [part for folder in folders for part in folder.iterdir()] == []


HALF = [b"", b"POST /he", b"GET / HTTP/1.1\r\nHost: loc", b"GET / HTTP/1.1\r\nX: y\r\n"]


@pytest.mark.parametrize("door", [1.0], indirect=True)
@pytest.mark.parametrize("sent", HALF)
def test_headers_that_do_not_come_end_their_connection(door, sent):
    assert door.ask([(sent, [])]) == [None]


def test_headers_without_end_are_refused(door):
    flood = (b"GET /health HTTP/1.1\r\n", [b"X-More: " + b"x" * 1000 + b"\r\n"] * 1000)
    assert door.ask([flood])[0] in {400, None}


def test_a_path_with_a_slash_more_is_another_path(bench):
    client = bench.client()
    for path in ("/apis/jobs/v2/workspaces/default/jobs/", "/health/"):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert "openapi.json" in answer.json()["detail"]
