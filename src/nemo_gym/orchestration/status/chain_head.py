"""A benchmark's chain seen as one: its newest job, found through the files of its folder, stands for all.

Where that folder is not on this machine, the job that was submitted stands for itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.chain.run_end import Requester
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobExecutor, JobRef

_UNSEEN = JobObservation(JobState.UNKNOWN, "nothing was said of it")


def observe(executor: JobExecutor, jobs: Sequence[JobRef]) -> dict[str, JobObservation]:
    """Look at chains, each named by the job that was submitted; answers by that job's id.

    A chain is as its last started job is; when that has ended, as the successor is that waits or runs.
    """
    members = {job: list(_members(job)) for job in jobs}
    seen = executor.observe(list(dict.fromkeys(member for found in members.values() for member in found)))
    return {
        job.job_id: _of_chain([seen.get(member.job_id, _UNSEEN) for member in found])
        for job, found in members.items()
    }


def of_benchmark(folder: Path, seen: JobObservation) -> JobObservation:
    """What is seen of a benchmark in a job that it shares: its own end, where that came by itself."""
    paths = JobPaths(folder)
    last = last_started(folder)
    end = _value(JobRef(last, folder), last, "end") if last else ""
    words, _, reason = end.partition("\n")
    outcome, status, asked = [*words.split(), "", "", ""][:3]
    goes_on = _value(JobRef(last, folder), last, "queued")
    if not outcome or goes_on or not status.isdecimal() or (asked != "none" and seen.state.final):
        return _cancelled(paths, seen)
    state = JobState.FAILED if int(status) else JobState.SUCCEEDED
    if state is JobState.FAILED and Requester.of(outcome, asked) is Requester.CANCEL:
        state = JobState.CANCELLED
    return replace(seen, state=state, reason=" ".join(reason.split()), exit_status=int(status))


def _cancelled(paths: JobPaths, seen: JobObservation) -> JobObservation:
    """One that is cancelled before it has begun does not begin in the job."""
    if seen.state is not JobState.QUEUED or not paths.cancelled.exists():
        return seen
    return replace(seen, state=JobState.CANCELLED, reason="cancelled")


def _of_chain(seen: list[JobObservation]) -> JobObservation:
    last, *successor = seen
    if last.state.final and successor and not successor[0].state.final:
        return successor[0]
    return last


def _members(job: JobRef) -> Iterator[JobRef]:
    """The job of the chain that started last, then its successor if it has queued one."""
    last = last_started(job.job_dir)
    yield JobRef(last, job.job_dir) if last else job
    queued = _value(job, last or job.job_id, "queued").partition(";")[0]
    if queued:
        yield JobRef(queued, job.job_dir)


def last_started(job_dir: Path) -> str:
    """The id of the job of a benchmark that started last; empty where none has, or the folder is not here."""
    paths = JobPaths(job_dir)
    try:
        names = os.listdir(paths.link("", 0).folder.parent)
    except OSError:
        return ""
    runs = [(*_order(paths, name), name.rpartition(".")[0]) for name in names]
    return max((run for run in runs if run[0]), default=(0.0, 0, ""))[2]


def _order(paths: JobPaths, name: str) -> tuple[float, int]:
    """When a run started, 0 when it has not, and its job's number, which distinguishes runs of one second."""
    job_id, _, restart = name.rpartition(".")
    digits = "".join(letter for letter in job_id if letter.isdigit())
    try:
        return float(paths.link(job_id, int(restart)).started.read_text(encoding="ascii")), int(digits or 0)
    except (OSError, ValueError):
        return 0.0, 0


def _value(job: JobRef, job_id: str, name: str) -> str:
    """A value of the newest run of a job; empty where there is none."""
    folder = JobPaths(job.job_dir).link(job_id).folder
    runs = sorted(folder.parent.glob(f"{job_id}.*"), key=lambda path: _restart(path.name))
    try:
        return (runs[-1] / name).read_text(encoding="utf-8", errors="replace").strip() if runs else ""
    except OSError:
        return ""


def _restart(name: str) -> int:
    text = name.rpartition(".")[2]
    return int(text) if text.isdecimal() else -1
