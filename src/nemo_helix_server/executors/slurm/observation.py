"""What a run on a cluster is doing, from its files and from what the scheduler says: pure.

The files are believed first: the shim on the node writes them, and only it knows how the command ended. The
scheduler says what files cannot: that a job waits, why, and that its place was taken away.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemo_helix_server.executors.base import RunObservation, RunState
from nemo_helix_server.executors.slurm.on_cluster.succession import (
    DISK_FULL,
    NODE_FAILED,
    PLACE_TAKEN,
    fails_unexplained,
)
from nemo_helix_server.storage.run_files import ExitRecord
from nemo_runs.durations import duration_in_words
from nemo_slurm.cluster import JobLook
from nemo_slurm.observing import has_ended
from nemo_slurm.reasons import WhoActs, read_reason
from nemo_slurm.states import Meaning, foreign
from nemo_trainer.contract import names
from nemo_trainer.contract.allocation import PREEMPTION, Allocation

_FORGOTTEN = "the scheduler does not know its job any more"
_PUT_BACK = "its job was put back into the queue"
FILES_LAG = 60.0
"""Seconds after a job's end for which its files may still arrive: storage of clusters shows them late."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What the files say."""

    submitted: bool = False
    """It was handed to the scheduler, or may have been."""
    given_up: bool = False
    claimed_at: float | None = None
    """By the clock of its node; `None`: it is free."""
    started_at: float | None = None
    end: ExitRecord | None = None
    stop_asked: bool = False
    replaced: bool = False
    """A later start has claimed its step, so it could not go on, however long its processes lived."""
    nodes: str = ""
    """The nodes of its allocation, as the scheduler writes them."""
    allocation: Allocation | None = None
    """What its allocation file says of its place."""
    scheduler_log: str = ""
    """The last lines of what the batch script itself printed."""

    @property
    def claimed(self) -> bool:
        """Whether an allocation has it, or had it."""
        return self.claimed_at is not None

    @property
    def is_over(self) -> bool:
        """Whether the files alone prove that nothing of it runs any more, or ever will."""
        return self.end is not None or self.given_up


def observe(
    files: RunRecord, seen: JobLook | None, now: float, *, unseen_for: float | None = None
) -> RunObservation:
    """``seen``: `None` where the scheduler did not answer; ``now``: by the clock of the cluster.

    ``unseen_for``: seconds for which the scheduler has answered that it has no such job; `None`: it has it.
    """
    if files.end is not None:
        return _ended(files, files.end, seen, now)
    if files.given_up:
        return RunObservation(RunState.LOST, never_started=True, reason="was given up before it started")
    if not files.submitted:
        return RunObservation(RunState.ABSENT)
    if seen is not None and seen.state is not None:
        return _with_job(files, seen, now)
    if unseen_for is not None and unseen_for > FILES_LAG:
        return RunObservation(
            RunState.LOST,
            started_at=files.started_at,
            interrupted=_FORGOTTEN,
            never_started=not files.claimed,
            reason=_FORGOTTEN,
        )
    return _unknown(files)


def observe_without_job(files: RunRecord, now: float, *, gone: bool, asked_long_ago: bool) -> RunObservation:
    """A run whose job is not known. ``gone``: the scheduler has shown that it has no job of this run.

    ``asked_long_ago``: it was handed over so long ago that a job of it would be seen by now.
    """
    if files.is_over:
        return observe(files, None, now)
    if files.claimed_at is None and asked_long_ago:
        return RunObservation(RunState.ABSENT)
    if gone and files.claimed_at is not None and now - files.claimed_at > FILES_LAG:
        why = "its job was lost before its command began"
        return RunObservation(RunState.LOST, interrupted=why, reason=why)
    return RunObservation(RunState.UNKNOWN, reason="whether the cluster has taken its job is not known yet")


def _with_job(files: RunRecord, seen: JobLook, now: float) -> RunObservation:
    assert seen.state is not None
    if seen.settled:
        return _over(files, seen, now)
    if seen.state.name == "PENDING" and files.claimed and seen.restarts:
        return RunObservation(
            RunState.LOST, started_at=files.started_at, interrupted=_PUT_BACK, reason=_PUT_BACK
        )
    if seen.state.name == "PENDING" or has_ended(seen.state) or seen.state.meaning is Meaning.LAG:
        if files.claimed or seen.state.name in {"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"}:
            return _running(files)
        return RunObservation(RunState.QUEUED, reason=_waits(seen))
    return _running(files)


def _running(files: RunRecord) -> RunObservation:
    if files.started_at is None:
        return RunObservation(RunState.STARTING)
    return RunObservation(RunState.RUNNING, started_at=files.started_at)


def _unknown(files: RunRecord) -> RunObservation:
    return RunObservation(
        RunState.UNKNOWN,
        started_at=files.started_at,
        reason="neither the scheduler nor its files say what it does (yet)",
    )


def _waits(seen: JobLook) -> str:
    """Why a job waits, for people: what the scheduler's word means, whose turn it is, and what helps."""
    if not seen.reason:
        return ""
    reason, job = read_reason(seen.reason), seen.job.id
    text = f"waits in the queue of the cluster: {reason.text}"
    if reason.turn is WhoActs.OPERATOR:
        text += f"; the site's turn: job {job} does not start by itself, so ask its administrators"
    elif reason.turn is WhoActs.YOU:
        text += f"; your turn: job {job} does not start by itself"
    if reason.help == "change":
        text += ": cancel it, and ask in its step or its execution profile for what the cluster allows"
    elif reason.help == "resubmit":
        text += ": pause and resume it, so that another job takes its place"
    command = reason.command(job)
    return f"{text} (`{command}`)" if command else text


def _ended(files: RunRecord, end: ExitRecord, seen: JobLook | None, now: float) -> RunObservation:
    if end.never_started:
        return RunObservation(RunState.LOST, ended_at=end.ended_at, never_started=True, reason=end.reason)
    if _awaits_the_job(files, end, seen, now):
        return RunObservation(
            RunState.UNKNOWN, started_at=files.started_at, reason="how its job ended is awaited"
        )
    taken = _taken(files, seen)
    if _failed_with_its_place(files, end, seen):
        return RunObservation(
            RunState.LOST,
            started_at=end.started_at,
            ended_at=end.ended_at,
            interrupted=taken,
            failed_nodes=_failed_nodes(files, seen),
            notice=_notice(files, taken),
            reason=taken,
        )
    if not taken and end.stopped and not files.stop_asked:
        taken = "its allocation was ended from outside"
    if not taken and end.exit_status == names.EXIT_PAUSED:
        taken = "it left its allocation before the end of its time"
    return RunObservation(
        RunState.EXITED,
        exit_status=end.exit_status,
        signal=end.signal,
        started_at=end.started_at,
        ended_at=end.ended_at,
        disk_full=end.disk_full,
        out_of_memory=end.out_of_memory or _is(seen, "OUT_OF_MEMORY"),
        timed_out=end.timed_out,
        stopped=end.stopped,
        asked=files.stop_asked,
        interrupted=taken,
        failed_nodes=_failed_nodes(files, seen),
        notice=_notice(files, taken),
        reason=end.reason,
    )


def _failed_with_its_place(files: RunRecord, end: ExitRecord, seen: JobLook | None) -> bool:
    """Whether a command failed only since it lost its place, by an error of its own: no end of its step."""
    if files.replaced:  # a process that finds itself replaced fails
        return end.exit_status not in {names.EXIT_DONE, names.EXIT_PAUSED}
    return _is(seen, NODE_FAILED) and fails_unexplained(end)


def _awaits_the_job(files: RunRecord, end: ExitRecord, seen: JobLook | None, now: float) -> bool:
    """Whether one of several nodes may have failed: the scheduler says it only once the job is over."""
    known = seen is not None and seen.state is not None and has_ended(seen.state)
    settled = known or files.replaced or files.stop_asked
    lately = abs(now - end.ended_at) < FILES_LAG  # its node may have another clock
    return _has_several(files.nodes) and not settled and fails_unexplained(end) and lately


def _over(files: RunRecord, seen: JobLook, now: float) -> RunObservation:
    """The job has ended and its shim has not said how."""
    assert seen.state is not None
    # a start is made once: what a later run of the same job ends with says nothing of the command
    taken = _taken(files, seen) or (_PUT_BACK if seen.restarts and files.claimed else "")
    if files.claimed and seen.ended_at is not None and now - seen.ended_at < FILES_LAG and not taken:
        return RunObservation(
            RunState.UNKNOWN, started_at=files.started_at, reason="its last files are awaited"
        )
    if taken:
        return RunObservation(
            RunState.LOST,
            started_at=files.started_at,
            ended_at=seen.ended_at,
            interrupted=taken,
            failed_nodes=_failed_nodes(files, seen),
            notice=_notice(files, taken),
            never_started=not files.claimed,
            reason=taken,
        )
    if seen.state.meaning is Meaning.CANCELLED:
        who = foreign(seen.author, seen.owner) or "its owner or the scheduler"
        return RunObservation(
            RunState.LOST,
            started_at=files.started_at,
            ended_at=seen.ended_at,
            never_started=not files.claimed and files.stop_asked,
            asked=files.stop_asked,
            reason=f"its job {seen.job.id} was cancelled by {who}",
        )
    if _is(seen, "OUT_OF_MEMORY"):
        return RunObservation(
            RunState.LOST,
            started_at=files.started_at,
            ended_at=seen.ended_at,
            out_of_memory=True,
            reason="the memory of its job was not enough",
        )
    if seen.exit_status == DISK_FULL:  # not the command's own, whose end would be on record
        return RunObservation(
            RunState.LOST,
            started_at=files.started_at,
            ended_at=seen.ended_at,
            disk_full=True,
            reason=f"its job {seen.job.id} ended since no space is left on the storage of its cluster",
        )
    said = files.scheduler_log.strip().splitlines()
    last = f": {said[-1].strip()}" if said else ""
    return RunObservation(
        RunState.LOST,
        started_at=files.started_at,
        ended_at=seen.ended_at,
        reason=f"its job {seen.job.id} ended as {seen.state.name} before its command was over{last}",
    )


def _taken(files: RunRecord, seen: JobLook | None) -> str:
    """Why the place to run was taken away; empty when it was not, or that is not known.

    A job that leaves within the grace time of its preemption ends in another state than ``PREEMPTED``, so the
    notice counts as much.
    """
    state = seen.state.name if seen is not None and seen.state is not None and has_ended(seen.state) else ""
    if not state or state not in PLACE_TAKEN:
        announced = files.allocation is not None and files.allocation.kind == PREEMPTION
        state = "PREEMPTED" if announced else ""
    if not state:
        return "a later allocation of its step has taken over" if files.replaced else ""
    grace = files.allocation.grace_seconds if files.allocation and state == "PREEMPTED" else None
    return f"{PLACE_TAKEN[state]} with {duration_in_words(grace)} of notice" if grace else PLACE_TAKEN[state]


def _notice(files: RunRecord, taken: str) -> Allocation | None:
    """What was announced before the place was taken away."""
    return files.allocation if taken and files.allocation is not None and files.allocation.kind else None


def _failed_nodes(files: RunRecord, seen: JobLook | None) -> tuple[str, ...]:
    """The node whose failure ended a run; of several, which one it was is not known."""
    single = bool(files.nodes) and not _has_several(files.nodes)
    return (files.nodes,) if single and (_is(seen, NODE_FAILED) or _is(seen, "BOOT_FAIL")) else ()


def _has_several(nodes: str) -> bool:
    return bool(set("[,") & set(nodes))


def _is(seen: JobLook | None, name: str) -> bool:
    return seen is not None and seen.state is not None and seen.state.name == name
