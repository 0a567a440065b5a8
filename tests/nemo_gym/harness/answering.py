"""Answers that are a function of question and repeat alone: from a server for us, in the process for lm-eval.

The answers are right about half of the time, in several spellings. Standard library only: the interpreter of
lm-eval loads this file too.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


def answer(prompt: str, repeat: int) -> str:
    """What the model says to a prompt, or to messages as JSON, the so-manieth time."""
    number = int(hashlib.md5(f"{prompt}|{repeat}".encode()).hexdigest(), 16)
    found = re.findall(r"\d+", prompt.rsplit("Ann has", 1)[-1])
    first, second = (int(found[0]), int(found[1])) if len(found) > 1 else (1, 2)
    total = first + second + (0 if number % 2 else number % 7)
    if number % 5 == 0:
        return f"it is {total}, I think"
    return f" {first} + {second} = {total}.\n#### {total}"


def likelihoods(tokens: list[int]) -> tuple[list[float | None], list[dict[str, float] | None]]:
    """Log-probabilities of the tokens of a prompt, each by the four up to it, and the likeliest ones."""
    values: list[float | None] = [None]
    best: list[dict[str, float] | None] = [None]
    for end in range(2, len(tokens) + 1):
        number = int(hashlib.md5(repr(tokens[max(0, end - 4) : end]).encode()).hexdigest(), 16)
        value = -(number % 4999) / 1000
        values.append(value)
        best.append({"a": value} if number % 3 else {"a": value, "b": value + 0.25})
    return values, best


class AnsweringServer:
    """``with AnsweringServer() as server: server.base_url``; the seed of a request is its repeat."""

    def __init__(
        self, *, seconds: float = 0.0, enough: int | None = None, letters: str | None = None
    ) -> None:
        """``letters``: of the tokenizer that it has, from token 1 on, one for each byte."""
        self.letters = letters
        self.requests = 0
        self.seconds = seconds
        self.enough = threading.Event()
        self._enough = enough
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        with self._lock:
            self.requests += 1
            if self.requests == self._enough:
                self.enough.set()
        time.sleep(self.seconds)
        repeat = body.get("seed") or 0
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if "messages" in body:
            text = answer(json.dumps(body["messages"]), repeat)
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        elif isinstance(body["prompt"], list):
            values, best = likelihoods([*body["prompt"], 7])
            found = {"token_logprobs": values, "top_logprobs": best}
            choice = {"index": 0, "text": "x", "logprobs": found, "finish_reason": "length"}
        else:
            choice = {"index": 0, "text": answer(body["prompt"], repeat), "finish_reason": "stop"}
        return {"id": "a", "object": "x", "created": 1, "model": "m", "choices": [choice], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: AnsweringServer

    def log_message(self, *_args: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        if self.path == "/tokenizer_info":
            self._send({"bos_token": "<s>", "eos_token": None})
            return
        self._send({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/tokenize":
            self._send(self.owner.reply(body))
        elif self.owner.letters is None:
            self._send({"error": {"message": "there is no /tokenize"}}, 404)
        else:
            text = body["prompt"].encode()
            found = [0] if text == b"<s>" else [self.owner.letters.index(chr(byte)) + 1 for byte in text]
            self._send({"count": len(found), "max_model_len": 4096, "tokens": found})

    def _send(self, document: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
