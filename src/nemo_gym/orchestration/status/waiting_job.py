"""Of the waiting jobs of one benchmark, the one that matters, why it waits, and what helps. Pure.

A held job shows its successor as waiting for it, so the successor's reason says nothing: what needs a person
comes first, then what passes by itself, and a mere ``Dependency`` last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nemo_gym.chain.evidence import Evidence
from nemo_gym.chain.observation import JobState
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_slurm.reasons import WaitReason, WhoActs, read_reason


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits, and why."""

    job_id: str
    reason: WaitReason


def foremost(known: Evidence) -> WaitingJob | None:
    """The waiting job that says most about when the benchmark goes on; of equal ones the newest."""
    jobs = [
        WaitingJob(job_id, read_reason(seen.observation.reason))
        for job_id in known.job_ids
        if (seen := known.seen.get(job_id)) is not None and seen.observation.state is JobState.QUEUED
    ]
    return max(reversed(jobs), key=lambda job: job.reason.weight, default=None)


def notes(waiting: WaitingJob) -> Iterable[str]:
    """Whose turn it is, where the job does not start by itself."""
    reason = waiting.reason
    if reason.turn is WhoActs.OPERATOR:
        yield f"the site's turn: job {waiting.job_id} does not start by itself; ask its administrators"
    elif reason.turn is WhoActs.YOU:
        yield f"your turn: job {waiting.job_id} does not start by itself"
    if reason.help == "change":
        yield (
            "then submit it again with what the cluster allows; `gym eval check` says what a config asks for "
            "and cannot have"
        )


def next_command(known: Evidence, waiting: WaitingJob) -> str:
    """The command that helps; empty where only waiting helps."""
    it = f"{known.gym_job_id} {known.benchmark}"
    if waiting.reason.help == "change":
        return f"gym job cancel {it}"
    if waiting.reason.help == "resubmit":
        return f"gym job cancel {it}, then gym job resubmit {it}"
    command = waiting.reason.command(waiting.job_id)
    there = "" if known.where == LocalRunFiles.label or not command else f"ssh {known.where} "
    return f"{there}{command}"
