"""A hub of models on this machine: what the hub's own client calls to make a repository and commit to it.

Objects are kept by digest, and a commit names them, as the real one does. Sending one can be made to fail.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_of_this_test"


class Hub:
    """What the hub holds, and what was asked of it."""

    def __init__(self) -> None:
        self.url = ""
        self.private: dict[str, bool] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.objects: dict[str, bytes] = {}
        self.received: list[str] = []
        """Digests of the objects that were sent, each time."""
        self.break_off_after: int | None = None
        """How many more objects are taken before sending fails."""
        self.tokens: set[str] = set()


@contextmanager
def running() -> Iterator[Hub]:
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = self._parts()
        if parts[:2] == ["api", "models"]:
            self._repository("/".join(parts[2:4]))
        else:
            self._send(404, {"error": f"no {self.path}"})

    def do_POST(self) -> None:
        parts, body = self._parts(), self._body()
        if parts[:3] == ["api", "repos", "create"]:
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            self.hub.private[name] = asked.get("visibility") == "private"
            self.hub.files.setdefault(name, {})
            self._send(200, {"url": f"{self.hub.url}/{name}"})
        elif parts[:2] == ["api", "validate-yaml"]:
            self._send(200, {"errors": [], "warnings": []})
        elif "preupload" in parts:
            self._preupload(json.loads(body))
        elif parts[-2:] == ["objects", "batch"]:
            self._batch(json.loads(body))
        elif "commit" in parts:
            self._commit("/".join(parts[2:4]), body)
        else:
            self._send(404, {"error": f"no {self.path}"})

    def do_PUT(self) -> None:
        body = self._body()
        if self.hub.break_off_after == 0:
            self._send(400, {"error": "broken off"})
            return
        if self.hub.break_off_after is not None:
            self.hub.break_off_after -= 1
        digest = hashlib.sha256(body).hexdigest()
        assert digest == self._parts()[-1]
        self.hub.objects[digest] = body
        self.hub.received.append(digest)
        self._send(200, {})

    def do_HEAD(self) -> None:
        self._send(404, {})

    def _repository(self, name: str) -> None:
        if name not in self.hub.private:
            self._send(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            return
        shown = {"id": name, "private": self.hub.private[name], "sha": "0" * 40, "tags": [], "siblings": []}
        self._send(200, shown)

    def _preupload(self, asked: dict[str, Any]) -> None:
        files = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["path"].endswith((".safetensors", ".gguf")) else "regular",
                "shouldIgnore": False,
            }
            for one in asked["files"]
        ]
        self._send(200, {"files": files})

    def _batch(self, asked: dict[str, Any]) -> None:
        found = []
        for one in asked["objects"]:
            upload = {"upload": {"href": f"{self.hub.url}/objects/{one['oid']}"}}
            there = one["oid"] in self.hub.objects
            found.append({"oid": one["oid"], "size": one["size"], **({} if there else {"actions": upload})})
        self._send(200, {"transfer": "basic", "objects": found})

    def _commit(self, name: str, body: bytes) -> None:
        files = self.hub.files[name]
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
        oid = hashlib.sha256(body).hexdigest()[:40]
        self._send(
            200, {"commitUrl": f"{self.hub.url}/{name}/commit/{oid}", "commitOid": oid, "success": True}
        )

    def _parts(self) -> list[str]:
        return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]

    def _body(self) -> bytes:
        self.hub.tokens.add(self.headers.get("Authorization", ""))
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
