"""What a notice says about a benchmark, from the files in its folder, and whether there is one.

A job of a chain does not end the benchmark while a successor waits, nor when it left the work to its twin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_runs.counts import counted

END: Final = "end"
FAILURE: Final = "failure"
NO_PROGRESS: Final = "no_progress"
EVENTS: Final = (END, FAILURE, NO_PROGRESS)
SCHEMA_VERSION: Final = 1

_INCOMPLETE = 75


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that people are notified of."""

    event: str
    key: str
    """What is sent at most once: the same for every job of a chain that would send it."""
    state: str
    """``succeeded``, ``stopped``, ``cancelled``, ``failed`` or ``running``."""
    reason: str = ""


def end_notice(job: JobPaths, link: LinkPaths, *, killed: str = "") -> Notice | None:
    """The end of a benchmark that a run of a job makes; ``None`` where something follows.

    ``killed`` is how a run ended that wrote no end marker itself.
    """
    words, _, reason = _text(link.end).partition("\n")
    outcome, status, asked = [*words.split(), "", "", ""][:3]
    if not outcome and killed:
        outcome, status, reason = "killed", "1", killed
    action, fate = [*_text(link.decision).partition("\n")[0].split(), "", ""][:2]
    if not outcome or (action, fate) == ("stop", "running"):
        return None
    event, state = END, "succeeded"
    if job.cancelled.exists():
        state, reason = "cancelled", _text(job.cancelled)
    elif outcome == "decided" and fate in ("stopped", "cancelled"):
        state = fate
    elif status == "0":
        reason = ""
    elif link.queued.exists() or link.next.exists():
        return None
    elif status == str(_INCOMPLETE) and asked == "person":
        state = "stopped"
    else:
        event, state, reason = FAILURE, "failed", reason or f"it ended with exit status {status}"
    return Notice(event, f"end-{_attempt(job)}", state, " ".join(reason.split()))


def no_progress_notice(job: JobPaths, seconds: int) -> Notice:
    """That so many seconds brought no result; sent once for each number of results."""
    done = _json(job.rollouts.progress).get("done")
    reason = f"no rollout got a result in {counted(max(1, seconds // 60), 'minute')}"
    return Notice(NO_PROGRESS, f"no_progress-{_attempt(job)}-{done}", "running", reason)


def document(notice: Notice, job: JobPaths, link: LinkPaths, *, at: str) -> dict[str, Any]:
    """The JSON document that is sent; what is not known is null."""
    progress, coverage = _json(job.rollouts.progress), _json(job.rollouts.coverage)
    score = coverage.get("score") if notice.event != NO_PROGRESS else None
    found = {
        "schema_version": SCHEMA_VERSION,
        "event": notice.event,
        "gym_job_id": job.job_dir.parent.name,
        "benchmark": job.job_dir.name,
        "job_id": link.folder.name.rpartition(".")[0],
        "state": notice.state,
        "reason": notice.reason or None,
        "done": progress.get("done"),
        "expected": progress.get("expected"),
        "mean_reward": progress.get("mean_reward_all"),
        "score": score if isinstance(score, dict) else None,
        "run_dir": str(job.job_dir.parent),
        "at": at,
    }
    return {**found, "text": _sentence(found)}


def _sentence(found: Mapping[str, Any]) -> str:
    """The same for a person, in one line."""
    what = {NO_PROGRESS: "makes no progress", FAILURE: "failed"}.get(found["event"], found["state"])
    parts = [f"{found['benchmark']} of {found['gym_job_id']}: {what}"]
    if found["done"] is not None and found["expected"] is not None:
        parts.append(f"{found['done']:,} of {counted(found['expected'], 'rollout')}")
    if found["score"] is not None and isinstance(mean := found["score"].get("mean"), float):
        parts.append(f"score {mean:.1%}")
    if found["reason"]:
        parts.append(str(found["reason"]))
    return ", ".join(parts)


def _attempt(job: JobPaths) -> int:
    """How often the benchmark was queued again in place: each has an end of its own."""
    try:
        return sum(1 for _ in job.resubmissions.iterdir())
    except FileNotFoundError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
