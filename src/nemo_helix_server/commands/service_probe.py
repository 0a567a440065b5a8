"""Looking at the service of a data directory from outside: where it is, and asking it as its owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from nemo_helix_server import settings
from nemo_helix_server.auth import step_tokens
from nemo_helix_server.auth.step_tokens import Claims
from nemo_helix_server.commands import holder
from nemo_helix_server.commands.holder import ServiceHolder
from nemo_helix_server.errors import ServerError
from nemo_runs.clock import SECOND, SystemClock

_TOKEN_SECONDS = 600
_TIMEOUT = 30.0


class NotRunningError(ServerError):
    """No service uses the data directory."""


class AnswerError(ServerError):
    """The service does not answer, or not as it should."""


def data_dir(given: Path | None) -> Path:
    """The data directory that is meant."""
    overrides = {} if given is None else {"data_dir": given}
    return settings.load(overrides=overrides).data_dir.expanduser().absolute()


def running(folder: Path) -> ServiceHolder:
    """The service that uses a data directory; raises `NotRunningError`."""
    found = holder.read(folder)
    if found is None or not found.alive:
        raise NotRunningError(f"no service uses the data directory {folder}; `nemo services run` starts one")
    return found


def ask(folder: Path, method: str, path: str, body: Any = None) -> Any:
    """What the service answers to its owner; raises `AnswerError`. ``body`` is sent as JSON, if given."""
    found = running(folder)
    expires_at = SystemClock().now() + _TOKEN_SECONDS * SECOND
    token = step_tokens.sign(step_tokens.load_key(folder), Claims.maintenance(expires_at))
    try:
        answer = httpx.request(
            method,
            found.base_url + path,
            headers={"authorization": f"Bearer {token}"},
            json=body,
            timeout=_TIMEOUT,
            trust_env=False,
        )
        document = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise AnswerError(
            f"the service of process {found.identity.pid} does not answer at {found.base_url}: {error}"
        ) from error
    if answer.is_error and path != "/health":
        raise AnswerError(
            f"the service at {found.base_url} answered {answer.status_code}: {document.get('detail')}"
        )
    return document


def status(folder: Path) -> dict[str, Any]:
    """Where the service is and how it is."""
    try:
        found = running(folder)
    except NotRunningError as error:
        return {"status": "stopped", "data_dir": str(folder), "problems": [error.detail], "jobs": {}}
    where = {
        "url": found.base_url,
        "pid": found.identity.pid,
        "started_at": found.started_at,
        "data_dir": str(folder),
    }
    try:
        answer = ask(folder, "GET", "/status")
    except AnswerError as error:
        return {**where, "status": "failing", "problems": [error.detail], "jobs": {}}
    return {**where, **answer}


def as_text(found: dict[str, Any]) -> str:
    """A status as lines."""
    if found["status"] == "stopped":
        return str(found["problems"][0])
    jobs = ", ".join(f"{number} {name}" for name, number in sorted(found["jobs"].items())) or "none"
    lines = [
        f"{found['status']}: {found['url']} (process {found['pid']}, since {_second(found['started_at'])})",
        f"data in {found['data_dir']}",
        f"jobs: {jobs}",
        *(f"problem: {problem}" for problem in found["problems"]),
    ]
    return "\n".join(lines)


def _second(moment: str) -> str:
    """A moment to the second, as all commands show it to people; documents keep its microseconds."""
    return f"{moment.partition('.')[0]}Z" if "." in moment else moment
