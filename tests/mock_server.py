"""A small OpenAI-compatible server whose faults are chosen: in a thread (`MockServer`) or as a program.

    python tests/mock_server.py --port 0 --options '{"faults": ["500"]}'     prints its port

It reads ``a + b`` out of a request and answers with the sum, or with one less (``answer="wrong"``), or with a
fixed text. ``script`` are the answers of each conversation, one a turn: a text, in which ``{result}`` is the
last result of a tool, or calls of tools, each a name and its arguments. A fault is one word: ``429``,
``429:SECONDS`` (Retry-After), any other status, ``drop`` (the connection ends before the answer), ``cut``
(ends within it), ``flood``, ``flood:STATUS`` (never ends), ``hang``, ``garbage`` (no JSON), ``empty`` (no
choices), ``length`` (a truncated answer), ``null`` (null
content), ``echo-key`` (a 401 that repeats the Authorization header), ``end:REASON`` (another finish_reason,
``end:null`` for none), ``json:…`` and ``text:…`` (a body with status 200), ``STATUS=…`` (a body with that
status), ``no-max_tokens`` (a 400 for requests with that key). ``faults`` are used up by the first
requests; ``faults_for`` maps a text in the request to faults of its own, used up likewise; an empty fault is
none; one that ends in ``*`` stays for ever.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Options:
    answer: str = "right"
    models: list[str] = field(default_factory=lambda: ["mock"])
    model_details: dict[str, Any] = field(default_factory=dict)
    version: str | None = None
    api_key: str | None = None
    latency: float = 0.0
    faults: list[str] = field(default_factory=list)
    faults_for: dict[str, list[str]] = field(default_factory=dict)
    models_status: int = 200
    script: list[Any] = field(default_factory=list)


class MockServer:
    """``with MockServer(faults=["500"]) as server: server.base_url``."""

    def __init__(self, port: int = 0, **options: Any) -> None:
        self.options = Options(**options)
        self.lock = threading.Lock()
        self.requests = 0
        self.prompts: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.released = threading.Event()
        self.inflight = self.max_inflight = 0
        handler = type("Handler", (_Handler,), {"mock": self})
        self._server = _Server(("127.0.0.1", port), handler)
        self.port: int = self._server.server_address[1]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.002})
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def serve(self) -> None:
        self._server.serve_forever()

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fault(self, text: str) -> str | None:
        with self.lock:
            for needle, faults in self.options.faults_for.items():
                if needle in text and (found := _next(faults)):
                    return found
            return _next(self.options.faults)


def _next(faults: list[str]) -> str | None:
    if not faults:
        return None
    return faults[0][:-1] if faults[0].endswith("*") else faults.pop(0)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that vanish are part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    mock: MockServer

    def log_message(self, *_args: object) -> None:
        pass

    def do_GET(self) -> None:
        options = self.mock.options
        if self.path == "/v1/models":
            if self._key_is_wrong():
                self._json({"error": "bad key"}, 401)
                return
            entries = [{"id": name, "object": "model", **options.model_details} for name in options.models]
            self._json({"object": "list", "data": entries}, options.models_status)
        elif self.path == "/version" and options.version:
            self._json({"version": options.version})
        elif self.path == "/stats":
            self._json({"requests": self.mock.requests, "distinct": len(self.mock.prompts)})
        else:
            self._json({"error": "not found"}, 404)

    def do_POST(self) -> None:
        mock = self.mock
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        with mock.lock:
            mock.requests += 1
            mock.inflight += 1
            mock.max_inflight = max(mock.max_inflight, mock.inflight)
            mock.bodies.append(json.loads(text))
            mock.prompts[_prompt(mock.bodies[-1])] += 1
        try:
            if mock.options.latency:
                time.sleep(mock.options.latency)
            self._respond(text, mock.fault(text))
        finally:
            with mock.lock:
                mock.inflight -= 1

    def _respond(self, text: str, fault: str | None) -> None:
        if self._key_is_wrong():
            self._json({"error": "bad key"}, 401)
        elif fault == "no-max_tokens" and '"max_tokens"' in text:
            words = "Unsupported parameter: 'max_tokens' is not supported with this model."
            error = {"message": f"{words} Use 'max_completion_tokens' instead.", "param": "max_tokens"}
            self._json({"error": error}, 400)
        elif fault in {None, "", "length", "null", "no-max_tokens"} or fault.startswith("end:"):
            if self.mock.options.script:
                self._json(_scripted(self.mock.options.script, json.loads(text)))
            else:
                self._json(_answer(self.path, _text(self.mock, text), fault))
        elif fault == "hang":
            self.mock.released.wait(60)
            self.close_connection = True
        elif fault == "drop":
            self.close_connection = True
        elif fault == "cut":
            self.send_response(200)
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
        elif fault.startswith("flood"):
            self._flood(int(fault.partition(":")[2] or 200))
        elif fault == "garbage":
            self._bytes(b"<html>oh no</html>")
        elif fault == "empty":
            self._json({"choices": []})
        elif fault.startswith(("json:", "text:")):
            self._bytes(fault.partition(":")[2].encode())
        elif fault.startswith("encoded:"):
            _, encoding, body = fault.split(":", 2)
            self._bytes(body.encode(), 200, {"content-encoding": encoding})
        elif fault[:4].endswith("="):
            self._bytes(fault[4:].encode(), int(fault[:3]))
        elif fault == "echo-key":
            self._json({"error": f"not a key: {self.headers['authorization']}"}, 401)
        else:
            status, _, wait = fault.partition(":")
            self._json({"error": f"fault {status}"}, int(status), {"retry-after": wait} if wait else {})

    def _flood(self, status: int) -> None:
        """Bytes without end, a gigabyte at most."""
        self.send_response(status)
        self.end_headers()
        self.close_connection = True
        for _ in range(1 << 10):
            self.wfile.write(bytes(1 << 20))

    def _key_is_wrong(self) -> bool:
        key = self.mock.options.api_key
        return key is not None and self.headers["authorization"] != f"Bearer {key}"

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._bytes(json.dumps(value).encode(), status, headers)

    def _bytes(self, data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def _prompt(body: dict[str, Any]) -> str:
    if "messages" in body:
        return str(body["messages"][-1]["content"])
    if "prompt" in body:
        return str(body["prompt"])
    given = body["input"]
    return given if isinstance(given, str) else str(given[-1]["content"])


def _text(mock: MockServer, text: str) -> str:
    wanted = mock.options.answer
    if wanted not in {"right", "wrong"}:
        return wanted
    prompt = _prompt(json.loads(text))
    found = re.search(r"(-?\d+) *([-+*]) *(-?\d+)", prompt)
    if not found:
        return "I do not know"
    left, operator, right = int(found[1]), found[2], int(found[3])
    value = {"+": left + right, "-": left - right, "*": left * right}[operator]
    letter = re.search(rf"^\(?([A-Z])[).:] *{value}$", prompt, re.MULTILINE)
    if letter:
        return f"Answer: {letter[1] if wanted == 'right' else 'ABCD'['BCDA'.index(letter[1])]}"
    return f"{left} {operator} {right} = {value if wanted == 'right' else value - 1}"


def _scripted(script: list[Any], body: dict[str, Any]) -> dict[str, Any]:
    """The chat answer of this turn; past the end of the script the last one again."""
    messages = body["messages"]
    turn = sum(message["role"] == "assistant" for message in messages)
    said = script[min(turn, len(script) - 1)]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if isinstance(said, str):
        return _answer("/chat/completions", said.replace("{result}", results[-1] if results else ""), None)
    answer = _answer("/chat/completions", None, "end:tool_calls")
    answer["choices"][0]["message"]["tool_calls"] = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(said)
    ]
    return answer


def _answer(path: str, text: str | None, fault: str | None) -> dict[str, Any]:
    if fault == "null":
        text = None
    end: str | None = "length" if fault == "length" else "stop"
    if fault and fault.startswith("end:"):
        end = None if fault == "end:null" else fault.removeprefix("end:")
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    if path.endswith("/chat/completions"):
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text}}
        return {
            "id": "c1",
            "created": 1,
            "model": "mock",
            "choices": [choice | {"finish_reason": end}],
            "usage": usage,
        }
    if path.endswith("/completions"):
        choice = {"index": 0, "text": text, "finish_reason": end}
        return {"id": "c1", "created": 1, "model": "mock", "choices": [choice], "usage": usage}
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    details = {"reason": "max_output_tokens"} if fault == "length" else None
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    return {
        "id": "r1",
        "object": "response",
        "status": "incomplete" if details else "completed",
        "output": [item],
        "incomplete_details": details,
        "usage": usage,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--options", type=json.loads, default={})
    arguments = parser.parse_args()
    server = MockServer(arguments.port, **arguments.options)
    print(server.port, flush=True)
    server.serve()


if __name__ == "__main__":
    main()
