"""Draining a service: pause what can be paused, wait for the checkpoints, say what still runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_server.commands import looking

_EVERYWHERE = "/apis/jobs/v2/workspaces/-"
_LOOK_SECONDS = 0.5
_UNDER_WAY = ("pending", "active", "resuming", "pausing", "cancelling")
"""A job in one of these has a workload, or is about to get one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a drain came to."""

    paused: list[str]
    """Jobs that were asked to pause and have."""
    refused: list[dict[str, Any]]
    """Jobs that could not be paused, each with the reason."""
    running: list[str]
    """Jobs that still run."""
    others: dict[str, str]
    """Status of jobs that were asked to pause and ended otherwise."""

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
        lines += [f"not paused: {entry['name']}: {entry['detail']}" for entry in self.refused]
        lines.append(f"still running: {', '.join(self.running)}" if self.running else "nothing runs any more")
        return "\n".join(lines)


def drain(
    folder: Path,
    timeout: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Pause everything in all workspaces and wait until it has paused, or ``timeout`` seconds are over."""
    deadline = clock() + timeout
    answer = looking.ask(folder, "POST", f"{_EVERYWHERE}/pause-all?maintenance=true")
    asked = list(answer["pausing"])
    while True:
        under_way = _jobs_in(folder, _UNDER_WAY)
        if not any(status == "pausing" for status in under_way.values()) or clock() >= deadline:
            break
        sleep(_LOOK_SECONDS)
    now = _jobs_in(folder, ("paused", "completed", "error", "cancelled")) if asked else {}
    return Outcome(
        paused=[name for name in asked if now.get(name) == "paused"],
        refused=list(answer["refused"]),
        running=sorted(under_way),
        others={name: now[name] for name in asked if name in now and now[name] != "paused"},
    )


def _jobs_in(folder: Path, statuses: tuple[str, ...]) -> dict[str, str]:
    """Status of every job that is in one of these."""
    found: dict[str, str] = {}
    page, pages = 1, 1
    while page <= pages:
        query = f"filter[status][in]={','.join(statuses)}&page_size=1000&page={page}"
        answer = looking.ask(folder, "GET", f"{_EVERYWHERE}/jobs?{query}")
        found |= {job["name"]: job["status"] for job in answer["data"]}
        page, pages = page + 1, answer["pagination"]["total_pages"]
    return found
