"""A small real HTTP service that answers as the Jobs service would, from a few jobs held in memory."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

MADE = "2026-11-01T10:00:00.250000Z"
CHANGED = "2026-11-01T11:30:00Z"


def job(name, status, **more):
    return {
        "id": f"platform-job-{name}",
        "attempt_id": f"platform-job-attempt-{name}-0",
        "name": name,
        "workspace": "default",
        "project": None,
        "description": None,
        "source": "customization",
        "spec": {"backend": "automodel"},
        "platform_spec": {"steps": [{"name": "training", "executor": {"provider": "gpu"}}], "secrets": []},
        "control": {"pause_ttl_seconds": None, "failed_ttl_seconds": None},
        "fileset": f"job-fileset-{name}",
        "output_location": None,
        "status": status,
        "reason": None,
        "status_details": {},
        "error_details": None,
        "storage_expires_at": None,
        "storage_bytes": None,
        "created_at": MADE,
        "updated_at": CHANGED,
        "ownership": None,
        "custom_fields": None,
        **more,
    }


JOBS = [
    job(
        "unsloth-0000000000aa", "active", status_details={"step": 40, "max_steps": 100, "train_loss": 0.69314}
    ),
    job(
        "automodel-a1b2c3d4e5f6",
        "paused",
        storage_expires_at="2099-01-01T00:00:00Z",
        status_details={"step": 40, "max_steps": 100},
    ),
    job(
        "rl-ffffffffffff",
        "error",
        error_details={"message": "CUDA ran out of memory", "advice": "halve the batch"},
        status_details={"rerun_warning": "the same failure is likely: CUDA ran out of memory"},
    ),
    job("done-1", "completed", description="base | first"),
]
_FIRST = {
    "attempt": 0,
    "step": "training",
    "task": "task-1",
    "place": "job 4711 on n3",
    "nodes": 2,
    "gpus": 16,
    "began_at": MADE,
    "ended_at": CHANGED,
    "waited_seconds": 90.0,
    "seconds": 5399.75,
    "gpu_seconds": 86396.0,
    "startup_seconds": 30.0,
    "first_step": 0,
    "last_step": 4207,
    "kept_step": 4200,
    "repeated_steps": 7,
    "lost_seconds": 8.5,
    "end": "interrupted",
    "unannounced": True,
    "cause": "it was preempted",
    "recorded": True,
}
_SECOND = {
    **_FIRST,
    "attempt": 1,
    "task": "task-2",
    "place": None,
    "began_at": None,
    "ended_at": None,
    "seconds": 0.0,
    "gpu_seconds": 0.0,
    "startup_seconds": 0.0,
    "first_step": None,
    "last_step": None,
    "kept_step": None,
    "repeated_steps": 0,
    "lost_seconds": 0.0,
    "end": None,
    "unannounced": False,
    "cause": None,
    "recorded": False,
}
BILL = {
    "allocations": [_FIRST, _SECOND],
    "totals": {
        "allocations": 2,
        "interruptions": 1,
        "seconds": 5399.75,
        "node_seconds": 10799.5,
        "gpu_seconds": 86396.0,
        "waited_seconds": 180.0,
        "startup_seconds": 30.0,
        "lost_seconds": 8.5,
        "lost_gpu_seconds": 136.0,
        "repeated_steps": 7,
    },
}
REFUSALS = {
    ("active", "resume"): "job 'NAME' is active; there is nothing to resume",
    ("paused", "rerun"): "job 'NAME' is paused; `nemo jobs resume NAME` goes on with it",
    ("completed", "pause"): "job 'NAME' is completed and cannot be paused",
    ("error", "resume"): "job 'NAME' ended in error; `nemo jobs rerun NAME` starts a new attempt",
}
BECOMES = {"pause": "pausing", "resume": "resuming", "rerun": "created", "cancel": "cancelling"}
NEXT = {"pausing": "paused", "resuming": "active", "created": "active", "cancelling": "cancelled"}
CHECKPOINTS = [
    {
        "id": f"ckpt-{step}-0a1b2c3d4e",
        "job": "JOB",
        "workspace": "default",
        "step_name": "training",
        "step": step,
        "size_bytes": 123_456_789,
        "verified": step != 20,
        "problem": "model.bin has 3 bytes, not 5" if step == 20 else None,
        "reason": "pause" if step == 40 else "periodic",
        "pinned": step == 10,
        "metrics": {"train_loss": 0.5},
        "created_at": MADE,
    }
    for step in (40, 20, 10)
]


class Service:
    """The state, what was asked of it, and how it answers."""

    def __init__(self) -> None:
        self.jobs = {found["name"]: json.loads(json.dumps(found)) for found in JOBS}
        self.requests: list[dict[str, Any]] = []
        self.lines = [f"step {number} loss {1 / number:.3f}" for number in range(1, 6)]
        self.profiles = ["subprocess/default"]
        self.findings = [
            {"verdict": "ok", "about": "partition", "text": "main is up"},
            {"verdict": "warning", "about": "walltime", "text": "it is not set"},
        ]
        """What the check of a profile finds."""
        self.script: list[str] = []
        """Statuses that the job takes on, one each time that its status is asked for."""
        self.failing: tuple[int, Any] | None = None
        """What every request is answered with instead."""

    def bodies(self, method: str, ending: str) -> list[Any]:
        return [r["body"] for r in self.requests if r["method"] == method and r["path"].endswith(ending)]

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if self.failing:
            return self.failing
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[1] == "jobs" and parts[-1] == "execution-profiles":
            row = {
                "backend": "subprocess",
                "config": {
                    "ttl_seconds_before_active": 1800,
                    "ttl_seconds_active": None,
                    "log_bytes": 67108864,
                    "default_task_image": "registry/image",
                    "cleanup_completed_jobs_immediately": False,
                },
                "given": ["default_task_image", "log_bytes"],
            }
            names = (name.split("/") for name in self.profiles)
            return 200, {"data": [{"provider": p, "profile": n, **row} for p, n in names]}
        if parts[2:4] == ["v2", "execution-profiles"]:
            return self._check(*parts[4:6])
        if parts[1] == "workspaces":
            return self._named(method, body, [{"name": "default", "jobs": 4, "storage_bytes": 0}])
        if parts[1] == "secrets":
            return self._named(
                method, {"name": parts[-1], **(body or {})}, [{"name": "hf", "workspace": "default"}]
            )
        if parts[1] == "auth":
            return self._tokens(method, body)
        if parts[-1] == "pause-all":
            refused = [{"name": "done-1", "status": "completed", "detail": "it is completed"}]
            return 200, {"pausing": ["unsloth-0000000000aa"], "refused": refused}
        return self._jobs(method, parts[6:], query, body)

    def _check(self, provider, profile):
        if [provider, profile] not in [name.split("/") for name in self.profiles]:
            there = ", ".join(self.profiles)
            detail = f"there is no execution profile '{provider}/{profile}'; there are {there}"
            return 404, {"detail": detail}
        ok = all(one["verdict"] != "problem" for one in self.findings)
        found = {"provider": provider, "profile": profile, "backend": "subprocess"}
        return 200, {**found, "ok": ok, "findings": self.findings}

    def _named(self, method, body, rows):
        if method == "GET":
            return 200, {"data": rows}
        if method == "DELETE":
            return 204, None
        return 201 if method == "POST" else 200, {k: v for k, v in body.items() if k != "value"}

    def _tokens(self, method, body):
        row = {"id": "token-1", "name": "ci", "role": "operate", "workspace": None, "created_at": MADE}
        if method == "POST":
            return 201, {**row, **body, "token": "nhx-the-token-itself"}
        return (204, None) if method == "DELETE" else (200, {"data": [row]})

    def _jobs(self, method, rest, query, body):
        if not rest:
            return self._list(query) if method == "GET" else self._create(body)
        found = self.jobs.get(rest[0])
        if found is None:
            return 404, {"detail": f"there is no job '{rest[0]}' in workspace 'default'"}
        if len(rest) == 1:
            return self._one(method, found, body)
        if rest[1] in BECOMES:
            return self._act(found, rest[1])
        if rest[1] == "control":
            found["control"] |= body
            return 200, found
        return self._below(method, found, rest[1:], query, body)

    def _list(self, query):
        rows = list(self.jobs.values())
        wanted = json.loads(query["filter"]) if query.get("filter", "").startswith("{") else {}
        for field, condition in wanted.items():
            allowed = condition.get("$in") if isinstance(condition, dict) else [condition]
            rows = [row for row in rows if field not in row or row[field] in allowed]
        size, page = int(query.get("page_size", 10)), int(query.get("page", 1))
        shown = rows[size * (page - 1) : size * page]
        pagination = {
            "page": page,
            "page_size": size,
            "current_page_size": len(shown),
            "total_pages": max(1, -(-len(rows) // size)),
            "total_results": len(rows),
        }
        return 200, {"data": shown, "pagination": pagination, "sort": "-created_at", "filter": wanted}

    def _create(self, body):
        name = body.get("name") or f"{body['source']}-12345678"
        if name in self.jobs and self.jobs[name]["spec"] == body.get("spec"):
            return 200, self.jobs[name]
        if name in self.jobs:
            return 409, {"detail": f"there is a job '{name}' already, with another definition"}
        self.jobs[name] = job(name, "created", **{k: v for k, v in body.items() if k != "name"})
        return 201, self.jobs[name]

    def _one(self, method, found, body):
        if method == "DELETE":
            if found["status"] not in {"completed", "error", "cancelled"}:
                detail = (
                    f"job '{found['name']}' is {found['status']}; `nemo jobs cancel {found['name']}` ends it"
                )
                return 409, {"detail": detail}
            del self.jobs[found["name"]]
            return 204, None
        if method == "PATCH":
            found |= body
        return 200, found

    def _act(self, found, verb):
        refusal = REFUSALS.get((found["status"], verb))
        if refusal:
            return 409, {"detail": refusal.replace("NAME", found["name"])}
        if (found["status"], verb) != ("completed", "cancel"):
            found["status"] = BECOMES[verb]
        return 200, found

    def _below(self, method, found, rest, query, body):
        kind = rest[0]
        if kind == "status":
            if self.script:
                found["status"] = self.script.pop(0)
            step = {"id": "platform-job-step-1", "name": "training", "status": found["status"], "tasks": []}
            step["status_details"] = found["status_details"]
            keys = ("id", "name", "status", "status_details", "error_details", "storage_expires_at")
            return 200, {**{key: found[key] for key in keys}, "steps": [step]}
        if kind == "status-details":
            found["status_details"] |= body
            return 200, found
        if kind == "logs":
            return self._logs(found, query)
        if kind == "checkpoints":
            rows = [{**row, "job": found["name"]} for row in CHECKPOINTS]
            one = next((row for row in rows if len(rest) > 1 and row["id"] == rest[1]), None)
            if len(rest) == 1:
                return 200, {"data": rows}
            if one is None:
                return 404, {"detail": f"job '{found['name']}' has no checkpoint '{rest[1]}'"}
            return 200, {**one, "pinned": method == "POST"}
        if kind == "attempts":
            row = {"id": found["attempt_id"], "name": "att-x", "job": found["name"], "workspace": "default"}
            row |= {"seq": 0, "status": found["status"], "created_at": MADE, "is_current": True}
            return 200, row if len(rest) > 1 else {"data": [row]}
        if kind == "bill":
            return 200, {"job": found["name"], "workspace": "default", "status": found["status"], **BILL}
        if kind == "transitions":
            row = {"seq": 1, "job": found["name"], "step": "training", "from": "pending", "to": "active"}
            return 200, {"data": [{**row, "at": MADE, "who": "controller", "why": "the process runs"}]}
        if kind == "results":
            if rest[-1] == "download":
                return 200, b"the artifact"
            row = {
                "name": "model",
                "job": found["name"],
                "workspace": "default",
                "artifact_url": "default/out",
            }
            return 200, {**row, **(body or {})} if len(rest) > 1 else {"data": [row]}
        step = {"id": "platform-job-step-1", "job": found["name"], "name": "training", "workspace": "default"}
        step |= {"status": found["status"], "created_at": MADE, "updated_at": CHANGED}
        if len(rest) == 1:
            return 200, {"data": [step]}
        if "tasks" in rest:
            task = {**step, "id": "platform-job-task-1", "name": "task-1", **(body or {})}
            return 200, task if rest[-1] != "tasks" else {"data": [task]}
        return 200, {**step, **{k: v for k, v in (body or {}).items() if k == "status"}}

    def _logs(self, found, query):
        lines = [
            {
                "timestamp": f"2026-11-01T{10 + number // 3600}:{number // 60 % 60:02}:{number % 60:02}Z",
                "job": found["name"],
                "job_step": "training",
                "job_task": "task-1",
                "message": text,
            }
            for number, text in enumerate(self.lines)
        ]
        start = int(query.get("page_cursor") or 0)
        size = int(query.get("limit") or 100)
        if "tail" in query:
            start = max(0, len(lines) - int(query["tail"]))
        shown = lines[start : start + size]
        more = str(start + len(shown)) if start + len(shown) < len(lines) else None
        return 200, {"data": shown, "total": len(lines), "next_page": more, "prev_page": None}


@contextmanager
def running():
    """The service on a free port of this machine; yields it with its ``url``."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            body = json.loads(raw) if raw else None
            request = {"method": self.command, "path": parts.path, "query": query, "body": body}
            service.requests.append({**request, "authorization": self.headers.get("authorization")})
            status, answer = service.answer(self.command, parts.path, query, body)
            data = (
                answer
                if isinstance(answer, bytes)
                else b""
                if answer is None
                else json.dumps(answer).encode()
            )
            self.send_response(status)
            kind = "application/octet-stream" if isinstance(answer, bytes) else "application/json"
            self.send_header("content-type", kind)
            if status == 409:
                self.send_header("x-should-retry", "false")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815 - http.server's names

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.002,), daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
