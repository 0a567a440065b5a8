"""A real HTTP server on loopback whose answers a test writes, and the requests that it got."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: object


@dataclass
class Answer:
    body: object = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang_up: bool = False
    """Close the connection without a word."""
    stream: Callable[[Callable[[str], None]], None] | None = None
    """Sends server-sent events by the function it gets."""


@dataclass
class Scripted:
    base_url: str
    asked: list[Asked] = field(default_factory=list)
    answers: dict[tuple[str, str], list[Answer]] = field(default_factory=dict)
    by_rule: Callable[[Asked], Answer | None] | None = None

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """Answer requests with these, one after another; the last one stays."""
        self.answers[method, path] = list(answers)

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        made = self.by_rule(asked) if self.by_rule else None
        if made is not None:
            return made
        waiting = self.answers.get((asked.method, asked.path))
        if waiting is None:
            return Answer({"detail": f"nothing at {asked.path}"}, 404)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    def requests(self, method: str, path: str) -> list[Asked]:
        return [asked for asked in self.asked if (asked.method, asked.path) == (method, path)]


@contextmanager
def scripted(tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    state = Scripted("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(
                self.command,
                unquote(parts.path),
                parse_qs(parts.query),
                headers,
                json.loads(raw) if raw else None,
            )
            answer = state.answer(asked)
            if answer.hang_up:
                self.close_connection = True
                return
            if answer.stream is not None:
                self._stream(answer.stream)
                return
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            if answer.status == 204:
                body = b""
            self.send_response(answer.status)
            for name, value in {"content-type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, play: Callable[[Callable[[str], None]], None]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True

            def send(text: str) -> None:
                self.wfile.write(text.encode())
                self.wfile.flush()

            try:
                play(send)
            except OSError:
                return

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    state.base_url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.002}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=30)


def job(status: str = "active", name: str = "automodel-a1b2c3d4e5f6", **more: object) -> dict[str, object]:
    return {
        "id": f"platform-job-{name}",
        "attempt_id": "platform-job-attempt-1",
        "name": name,
        "workspace": "default",
        "status": status,
        **more,
    }


def line(number: int, task: str = "task-1") -> dict[str, object]:
    return {
        "timestamp": f"2026-11-01T10:00:{number:02d}Z",
        "job": "automodel-a1b2c3d4e5f6",
        "job_step": "training",
        "job_task": task,
        "message": f"line {number}",
    }
