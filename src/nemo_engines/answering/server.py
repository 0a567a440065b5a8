"""``python -m nemo_engines.answering.server FOLDER --name NAME``: a model over an OpenAI-compatible API.

Runs in an engine's interpreter. One line of JSON on stdout says where it answers. It ends at SIGTERM, and
with ``--until-stdin-ends`` when the process that has started it is gone. One answer is computed at a time;
others wait.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from nemo_engines.answering import asked, loaded
from nemo_engines.answering.asked import AnswerRequest, RefusedRequestError
from nemo_engines.answering.loaded import LoadedModels, Piece
from nemo_engines.errors import BadSpecError, EngineUnavailableError, TrainerError

KEY_VARIABLE = "NEMO_GYM_SERVICE_API_KEY"
"""The key that clients must send; everybody is served where it is not set."""
_LARGEST_BODY = 67_000_000
_BEFORE_THE_BODY = (401, 411, 413)
"""Statuses of requests whose body is not read."""
_CHAT = "/v1/chat/completions"
_TEXT = "/v1/completions"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve; the exit codes of what goes wrong before are those of trainings."""
    options = _parser().parse_args(argv)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    key = os.environ.pop(KEY_VARIABLE, None) or None
    try:
        models = _loaded(options)
        server = AnswerServer((options.host, options.port), models, key)
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if options.until_stdin_ends:
        threading.Thread(target=_leave_with_stdin, daemon=True).start()
    port = server.server_address[1]
    shown = f"[{options.host}]" if ":" in options.host else options.host
    sys.stdout.write(json.dumps({"url": f"http://{shown}:{port}/v1", "models": models.names}) + "\n")
    sys.stdout.flush()
    server.serve_forever()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nemo_engines.answering.server", description="Serve a model.")
    parser.add_argument("folder", type=Path, help="folder of a model, or of an adapter")
    parser.add_argument("--name", required=True, help="what clients call it")
    parser.add_argument("--base", type=Path, help="folder of the base model")
    parser.add_argument("--base-name", help="answer as the base model, too, by this name")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 is any free one")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="what it is computed on; by default a GPU")
    parser.add_argument("--threads", type=int, help="CPU threads; by default all cores but one")
    parser.add_argument(
        "--until-stdin-ends", action="store_true", help="end with the process that has started it"
    )
    return parser


def _loaded(options: argparse.Namespace) -> LoadedModels:
    try:
        import torch  # noqa: PLC0415 - only an engine's environment has it
    except ImportError as error:
        raise EngineUnavailableError(f"{error}: use the environment of `nemo engines install trl`") from error
    torch.set_num_threads(options.threads or max(1, len(os.sched_getaffinity(0)) - 1))
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return loaded.load(
        options.folder, options.name, base=options.base, base_name=options.base_name, device=device
    )


def _leave_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


class AnswerServer(ThreadingHTTPServer):
    """A thread for each connection; one of them computes at a time."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], models: LoadedModels, key: str | None) -> None:
        self.models, self.key = models, key
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            raise BadSpecError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}") from error

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as the base has it
        """Of a client that has gone nothing is said; any other error is one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            sys.stderr.write(f"a request failed: {type(error).__name__}: {error}\n")


class _Handler(BaseHTTPRequestHandler):
    server: AnswerServer
    protocol_version = "HTTP/1.1"
    timeout = 600.0
    """Seconds that a connection may be silent."""

    def do_GET(self) -> None:
        """The routes that ask for nothing."""
        path = self.path.partition("?")[0]
        if path == "/health":
            self._send(200, {"status": "ok"})
        elif self._may():
            if path == "/v1/models":
                self._send(200, loaded.described(self.server.models))
            else:
                self._refuse(404, f"there is no {path} here")

    def do_POST(self) -> None:
        """The routes that answer."""
        path = self.path.partition("?")[0]
        body = self._body() if self._may() else None
        if body is None:
            return
        if path not in (_CHAT, _TEXT):
            self._refuse(404, f"there is no {path} here; there are {_CHAT} and {_TEXT}")
            return
        given_up = threading.Event()
        try:
            request = asked.read(json.loads(body), chat=path == _CHAT)
            pieces = self.server.models.answer(request, given_up)
        except (ValueError, RecursionError):
            self._refuse(400, "the body is not JSON, or too deep")
        except RefusedRequestError as error:
            self._refuse(400, str(error))
        else:
            self._answer(request, pieces, given_up)

    def _answer(self, request: AnswerRequest, pieces: Generator[Piece], given_up: threading.Event) -> None:
        parts = Documents(request)
        try:
            if request.streamed:
                self._stream(parts.chunks(pieces))
            else:
                self._send(*_finished(parts, pieces))
        finally:
            given_up.set()
            pieces.close()  # the next request is computed from here on

    def _stream(self, documents: Iterator[Mapping[str, Any]]) -> None:
        """Server-sent events."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for document in documents:
            self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LARGEST_BODY:
            self._refuse(
                413 if length.isdecimal() else 411,
                f"the body must say its length, at most {_LARGEST_BODY:,} bytes",
            )
            return None
        return self.rfile.read(int(length))

    def _may(self) -> bool:
        key = self.server.key
        given = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if key is None or hmac.compare_digest(given.encode(), key.encode()):
            return True
        self._refuse(401, "send the API key of this server as `Authorization: Bearer KEY`")
        return False

    def _refuse(self, status: int, message: str) -> None:
        """Refuse a request; where its body was not read, the connection ends with that."""
        self.close_connection = self.close_connection or status in _BEFORE_THE_BODY
        kind = "invalid_request_error" if status < 500 else "server_error"
        self._send(status, {"error": {"message": message, "type": kind, "code": status}})

    def _send(self, status: int, document: Mapping[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
        """Nothing: requests are the clients' own business."""


def _finished(parts: Documents, pieces: Iterator[Piece]) -> tuple[int, Mapping[str, Any]]:
    """The status and the document of an answer that is sent at once."""
    try:
        return 200, parts.whole(list(pieces))
    except Exception as error:  # noqa: BLE001 - the library raises what it likes, and the client waits
        message = f"the answer could not be computed: {type(error).__name__}: {error}"
        sys.stderr.write(f"{message}\n")
        return 500, {"error": {"message": message[:1000], "type": "server_error", "code": 500}}


class Documents:
    """The documents of an answer, as the API has them."""

    def __init__(self, request: AnswerRequest) -> None:
        self._request = request
        self._chat = request.prompt is None
        kind = "chat.completion" if self._chat else "text_completion"
        self._head = {
            "id": f"{'chatcmpl' if self._chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": request.model,
        }
        self._kind = kind

    def whole(self, pieces: Sequence[Piece]) -> Mapping[str, Any]:
        """The answer as one document."""
        text = "".join(piece.text for piece in pieces)
        content = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice = {"index": 0, **content, "finish_reason": pieces[-1].finish, "logprobs": None}
        return {**self._head, "object": self._kind, "choices": [choice], "usage": _usage(pieces[-1])}

    def chunks(self, pieces: Iterator[Piece]) -> Iterator[Mapping[str, Any]]:
        """The answer in pieces."""
        kind = f"{self._kind}.chunk" if self._chat else self._kind
        head = {**self._head, "object": kind}
        if self._chat:
            yield {**head, "choices": [_delta({"role": "assistant", "content": ""}, None)]}
        for piece in pieces:
            content = {"content": piece.text} if piece.text else {}
            choice = (
                _delta(content, piece.finish)
                if self._chat
                else {"index": 0, "text": piece.text, "finish_reason": piece.finish, "logprobs": None}
            )
            yield {**head, "choices": [choice]}
            if piece.finish is not None and self._request.with_usage:
                yield {**head, "choices": [], "usage": _usage(piece)}


def _delta(content: Mapping[str, Any], finish: str | None) -> Mapping[str, Any]:
    return {"index": 0, "delta": content, "finish_reason": finish, "logprobs": None}


def _usage(last: Piece) -> Mapping[str, int]:
    return {
        "prompt_tokens": last.prompt_tokens,
        "completion_tokens": last.answer_tokens,
        "total_tokens": last.prompt_tokens + last.answer_tokens,
    }


if __name__ == "__main__":
    sys.exit(main())
