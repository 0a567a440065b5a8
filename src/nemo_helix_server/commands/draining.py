"""Draining a service: pause what can be paused, wait for the checkpoints, say what still runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_plugin.jobs.statuses import HelixJobStatus
from nemo_helix_server.commands import service_probe

_EVERYWHERE = "/apis/jobs/v2/workspaces/-"
_LOOK_SECONDS = 0.5
_UNDER_WAY = tuple(status.value for status in HelixJobStatus if status.is_under_way)
_STOPPING = frozenset(status.value for status in HelixJobStatus if status.is_stopping)


@dataclass(frozen=True, slots=True)
class DrainOutcome:
    """What a drain came to."""

    paused: list[str]
    """Jobs that were under way and have paused, as ``<workspace>/<name>``."""
    refused: list[dict[str, Any]]
    """Jobs that could not be paused, each with the reason."""
    running: list[str]
    """Jobs that still run, or will as soon as there is capacity."""
    others: dict[str, str]
    """Status of jobs that were under way and ended meanwhile."""

    @property
    def quiet(self) -> bool:
        """Whether nothing runs any more."""
        return not self.running

    def document(self) -> dict[str, Any]:
        """The outcome as JSON."""
        return {
            "paused": self.paused,
            "refused": self.refused,
            "running": self.running,
            "ended": self.others,
            "quiet": self.quiet,
        }

    def as_text(self) -> str:
        """The outcome as lines."""
        lines = [f"paused: {name}" for name in self.paused]
        lines += [f"ended as {status}: {name}" for name, status in self.others.items()]
        lines += [
            f"not paused: {entry['workspace']}/{entry['name']}: {entry['detail']}" for entry in self.refused
        ]
        lines.append(f"still running: {', '.join(self.running)}" if self.running else "nothing runs any more")
        return "\n".join(lines)


def drain(
    folder: Path,
    timeout: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> DrainOutcome:
    """Pause everything in all workspaces and wait until it has paused, or ``timeout`` seconds are over."""
    deadline = clock() + timeout
    before = _jobs_in(folder, _UNDER_WAY)
    answer = service_probe.ask(folder, "POST", f"{_EVERYWHERE}/pause-all?maintenance=true")
    while True:
        now = _jobs_in(folder, _UNDER_WAY)
        if not _STOPPING & set(now.values()) or clock() >= deadline:
            break
        sleep(_LOOK_SECONDS)
    came_to = {
        name: service_probe.ask(folder, "GET", _path(name))["status"] for name in before if name not in now
    }
    return DrainOutcome(
        paused=sorted(name for name, status in came_to.items() if status == "paused"),
        refused=[entry for entry in answer["refused"] if f"{entry['workspace']}/{entry['name']}" in now],
        running=sorted(now),
        others={name: status for name, status in came_to.items() if status != "paused"},
    )


def _path(name: str) -> str:
    workspace, _, job = name.partition("/")
    return f"/apis/jobs/v2/workspaces/{workspace}/jobs/{job}/status"


def _jobs_in(folder: Path, statuses: tuple[str, ...]) -> dict[str, str]:
    """Status of every job that is in one of these, by ``<workspace>/<name>``."""
    found: dict[str, str] = {}
    page, pages = 1, 1
    while page <= pages:
        query = f"filter[status][in]={','.join(statuses)}&page_size=1000&page={page}"
        answer = service_probe.ask(folder, "GET", f"{_EVERYWHERE}/jobs?{query}")
        found |= {f"{job['workspace']}/{job['name']}": job["status"] for job in answer["data"]}
        page, pages = page + 1, answer["pagination"]["total_pages"]
    return found
