"""A very cheap OpenAI-compatible server for load measurements, on loopback only.

    python bench/servers/mock_openai.py [--port 0] [--latency-ms 0 …] [--first-request FILE]

It prints its port. Every request is answered with ``Answer: N``, N made from the request's bytes, so that the
same request gets the same answer, after a latency: one for all, or one of several, chosen by the request's
bytes too. Requests are not parsed beyond their length, answers are ready-made bytes: about 0.04 ms of CPU
each. ``GET /stats`` tells requests, those in flight and their most, CPU seconds, when the first request came
(UTC seconds; a file can be told too), and the seconds spent on answers that were waited for and on those that
were not; ``GET /reset`` begins anew. It ends by itself after ``--max-seconds``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import time
import zlib
from collections import deque
from pathlib import Path

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_CHAT = (
    b'{"id":"chatcmpl-mock","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"Answer: %02d"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":90,"completion_tokens":12,"total_tokens":102}}'
)
_COMPLETION = (
    b'{"id":"cmpl-mock","object":"text_completion","created":1700000000,"model":"mock","choices":[{"index":0,'
    b'"text":"Answer: %02d","finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":90,"completion_tokens":12,"total_tokens":102}}'
)
_RESPONSE = (
    b'{"id":"resp-mock","object":"response","created_at":1700000000,"status":"completed","model":"mock",'
    b'"incomplete_details":null,"output":[{"id":"msg-mock","type":"message","role":"assistant",'
    b'"status":"completed","content":[{"type":"output_text","text":"Answer: %02d","annotations":[]}]}],'
    b'"usage":{"input_tokens":90,"output_tokens":12,"total_tokens":102}}'
)
_MODELS = b'{"object":"list","data":[{"id":"mock","object":"model"}]}'
_LENGTH = b"content-length:"


def _whole(body: bytes) -> bytes:
    return _HEAD % len(body) + body


def _answers(template: bytes) -> list[bytes]:
    return [_whole(template % number) for number in range(19)]


ANSWERS = {
    b"POST /v1/chat/completions": _answers(_CHAT),
    b"POST /v1/completions": _answers(_COMPLETION),
    b"POST /v1/responses": _answers(_RESPONSE),
}


class Counters:
    """What the server has done since the last reset."""

    def __init__(self, first_request: Path | None) -> None:
        self._first_request = first_request
        self.reset()

    def begin(self) -> None:
        """The first request is there."""
        self.first_at = time.time()
        if self._first_request is not None:
            self._first_request.write_text(f"{self.first_at}\n")

    def reset(self) -> None:
        """Begin anew."""
        self.requests = self.in_flight = self.most_in_flight = 0
        self.first_at = self.answered_s = self.abandoned_s = 0.0
        self._cpu = _cpu_seconds()

    def to_json(self) -> bytes:
        """What ``GET /stats`` answers."""
        facts = {"requests": self.requests, "in_flight": self.in_flight}
        facts |= {"most_in_flight": self.most_in_flight}
        facts |= {"cpu_s": round(_cpu_seconds() - self._cpu, 3), "first_at": self.first_at}
        facts |= {"answered_s": self.answered_s, "abandoned_s": self.abandoned_s}
        return json.dumps(facts).encode()


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, counters: Counters, latencies: list[float]) -> None:
        self._loop = loop
        self._counters = counters
        self._latencies = latencies
        self._buffer = b""
        self._waiting: deque[float] = deque()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody waits for what is still to be answered here."""
        del exc
        now = self._loop.time()
        self._counters.abandoned_s += sum(now - since for since in self._waiting)
        self._counters.in_flight -= len(self._waiting)
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        """Answer every request that is there as a whole."""
        buffer = self._buffer + data if self._buffer else data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            head = buffer[:end]
            size = end + 4 + _body_length(head)
            if len(buffer) < size:
                break
            self._request(head, buffer[end + 4 : size])
            buffer = buffer[size:]
        self._buffer = buffer

    def _request(self, head: bytes, body: bytes) -> None:
        what = head[: head.index(b" HTTP/1.")]
        answers = ANSWERS.get(what)
        if answers is None:
            self._transport.write(_whole(self._other(what)))
            return
        counters = self._counters
        if not counters.requests:
            counters.begin()
        counters.requests += 1
        counters.in_flight += 1
        counters.most_in_flight = max(counters.most_in_flight, counters.in_flight)
        number = zlib.crc32(body)
        answer, latency = answers[number % len(answers)], self._latencies[number % len(self._latencies)]
        self._waiting.append(self._loop.time())
        if latency:
            self._loop.call_later(latency, self._reply, answer)
        else:
            self._reply(answer)

    def _reply(self, answer: bytes) -> None:
        if self._waiting:  # none: the connection was lost before
            self._counters.in_flight -= 1
            self._counters.answered_s += self._loop.time() - self._waiting.popleft()
            self._transport.write(answer)

    def _other(self, what: bytes) -> bytes:
        if what == b"GET /stats":
            return self._counters.to_json()
        if what == b"GET /reset":
            self._counters.reset()
            return b"{}"
        return _MODELS


def _body_length(head: bytes) -> int:
    lower = head.lower()
    at = lower.find(_LENGTH)
    if at < 0:
        return 0
    end = lower.find(b"\r\n", at)
    return int(lower[at + len(_LENGTH) : end if end >= 0 else len(lower)])


async def serve(port: int, latencies: list[float], first_request: Path | None, max_seconds: float) -> None:
    """Serve until the time is up, so that a forgotten server ends by itself."""
    loop, counters = asyncio.get_running_loop(), Counters(first_request)
    server = await loop.create_server(
        lambda: Connection(loop, counters, latencies), "127.0.0.1", port, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.sleep(max_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A very cheap OpenAI-compatible server for load measurements."
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[0.0])
    parser.add_argument("--first-request", type=Path, metavar="FILE")
    parser.add_argument("--max-seconds", type=float, default=3600.0)
    arguments = parser.parse_args()
    latencies = [milliseconds / 1000 for milliseconds in arguments.latency_ms]
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.port, latencies, arguments.first_request, arguments.max_seconds))


if __name__ == "__main__":
    main()
