"""What helps after each kind of failure, and whether a rerun can: one table. Pure.

A rerun has the same configuration, so what only another configuration fixes needs a new job. An advice names
what can really be done; where something has to be changed first, the rerun comes after it, and is not
offered as the next command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nemo_helix_server.jobs.states import StatusReason


class RerunHelps(StrEnum):
    """Whether a rerun of a failed job gets further."""

    NOW = "now"
    """It may well, with nothing changed."""
    AFTER_CHANGE = "after_change"
    """Once somebody has done what the advice says; before that it fails the same way."""
    NEVER = "never"
    """It cannot: only a new job with another configuration can."""


class FailureKind(StrEnum):
    """What a failure comes from, as far as that decides what helps."""

    UNKNOWN = "unknown"
    LOST = "lost"
    STALE = "stale"
    ENVIRONMENT_CHANGED = "environment_changed"
    MEMORY_LIMIT = "memory_limit"
    MACHINE_MEMORY = "machine_memory"
    GPU_MEMORY = "gpu_memory"
    DISK_FULL = "disk_full"
    TIME_LIMIT = "time_limit"
    TIME_LIMIT_WITHOUT_CHECKPOINT = "time_limit_without_checkpoint"
    BAD_SPEC = "bad_spec"
    NO_ENGINE = "no_engine"
    DIVERGED = "diverged"
    INPUTS_CHANGED = "inputs_changed"
    CHECKPOINT_UNUSABLE = "checkpoint_unusable"
    LAST_CHECKPOINT_UNUSABLE = "last_checkpoint_unusable"
    MISSING_MODULE = "missing_module"
    OTHER_VERSION = "other_version"
    NO_PROGRAM = "no_program"
    NO_PERMISSION = "no_permission"
    NO_FILE = "no_file"
    START_TOO_LARGE = "start_too_large"
    START_SPEC = "start_spec"
    START_SETUP = "start_setup"
    START_REFUSED = "start_refused"
    START_TOO_LATE = "start_too_late"
    START_CHECKPOINT_GONE = "start_checkpoint_gone"
    FOLDERS_NOT_MADE = "folders_not_made"
    NO_PROGRESS = "no_progress"
    BUDGET_SPENT = "budget_spent"
    PAUSE_DEADLINE = "pause_deadline"
    PAUSE_WITHOUT_CHECKPOINT = "pause_without_checkpoint"


@dataclass(frozen=True, slots=True)
class FailureAdvice:
    """What helps after one kind of failure."""

    reason: StatusReason
    rerun: RerunHelps
    text: str | None = None
    """What to do, with names of `advised` in braces; `None`: nothing but a rerun."""


_NOW, _AFTER, _NEVER = RerunHelps.NOW, RerunHelps.AFTER_CHANGE, RerunHelps.NEVER
_R = StatusReason
_LIMIT = "raise ttl_seconds_active of its execution profile in the service's settings"

ADVICE: Mapping[FailureKind, FailureAdvice] = {
    FailureKind.UNKNOWN: FailureAdvice(_R.WORKLOAD_FAILED, _NOW),
    FailureKind.LOST: FailureAdvice(_R.LOST, _NOW),
    FailureKind.STALE: FailureAdvice(
        _R.STALE,
        _NOW,
        "its log ends with where each of its processes was: `nemo jobs logs {job} --workspace {workspace}`",
    ),
    FailureKind.ENVIRONMENT_CHANGED: FailureAdvice(
        _R.WORKLOAD_FAILED,
        _AFTER,
        "bring back what the checkpoint was saved with and use {again}, or create a new job",
    ),
    FailureKind.MEMORY_LIMIT: FailureAdvice(
        _R.OUT_OF_MEMORY,
        _NEVER,
        "raise resources.limits.memory of the step, or load less at once, in a new job",
    ),
    FailureKind.MACHINE_MEMORY: FailureAdvice(
        _R.OUT_OF_MEMORY,
        _AFTER,
        "free memory on the machine and use {again}, or load less at once in a new job",
    ),
    FailureKind.GPU_MEMORY: FailureAdvice(
        _R.OUT_OF_MEMORY,
        _NEVER,
        "lower the batch size, the sequence length or the number of trained parameters in a new job",
    ),
    FailureKind.DISK_FULL: FailureAdvice(_R.DISK_FULL, _AFTER, "free space and use {again}"),
    FailureKind.TIME_LIMIT: FailureAdvice(
        _R.TIME_LIMIT, _NOW, f"{{again}} goes on for as long again; or {_LIMIT}"
    ),
    FailureKind.TIME_LIMIT_WITHOUT_CHECKPOINT: FailureAdvice(
        _R.TIME_LIMIT, _AFTER, f"there is no checkpoint to go on from: {_LIMIT} and use {{again}}"
    ),
    FailureKind.BAD_SPEC: FailureAdvice(_R.WORKLOAD_FAILED, _NEVER, "correct the specification in a new job"),
    FailureKind.NO_ENGINE: FailureAdvice(
        _R.WORKLOAD_FAILED,
        _AFTER,
        "do what the last line of its log says and use {again}, or choose another engine in a new job",
    ),
    FailureKind.DIVERGED: FailureAdvice(_R.WORKLOAD_FAILED, _NEVER, "lower the learning rate in a new job"),
    FailureKind.INPUTS_CHANGED: FailureAdvice(
        _R.WORKLOAD_FAILED,
        _AFTER,
        "put back what was there and use {again}, or create a new job; another checkpoint does not help",
    ),
    FailureKind.CHECKPOINT_UNUSABLE: FailureAdvice(
        _R.WORKLOAD_FAILED,
        _AFTER,
        "name another one, of those that `nemo jobs checkpoints list {job} --workspace {workspace}` shows: "
        "`nemo jobs rerun {job} --workspace {workspace} --checkpoint ID`",
    ),
    FailureKind.LAST_CHECKPOINT_UNUSABLE: FailureAdvice(
        _R.WORKLOAD_FAILED, _NEVER, "there is no other one to go on from: create a new job"
    ),
    FailureKind.MISSING_MODULE: FailureAdvice(
        _R.WORKLOAD_FAILED,
        _AFTER,
        "install it for {program} and use {again}, or name another interpreter in a new job",
    ),
    FailureKind.OTHER_VERSION: FailureAdvice(
        _R.WORKLOAD_FAILED,
        _AFTER,
        "install the version that it needs for {program} and use {again}, or name another interpreter in a "
        "new job",
    ),
    FailureKind.NO_PROGRAM: FailureAdvice(
        _R.WORKLOAD_FAILED,
        _AFTER,
        "make {program} a program that can be run where the step runs and use {again}, or name another one "
        "in a new job",
    ),
    FailureKind.NO_PERMISSION: FailureAdvice(
        _R.WORKLOAD_FAILED,
        _AFTER,
        "let the user of the step use {file} and use {again}, or name another file in a new job",
    ),
    FailureKind.NO_FILE: FailureAdvice(
        _R.WORKLOAD_FAILED, _AFTER, "put {file} there and use {again}, or name another file in a new job"
    ),
    FailureKind.START_TOO_LARGE: FailureAdvice(
        _R.START_FAILED, _NEVER, "ask for less in a new job, or run the service where there is more"
    ),
    FailureKind.START_SPEC: FailureAdvice(_R.START_FAILED, _NEVER, "correct that in a new job"),
    FailureKind.START_SETUP: FailureAdvice(_R.START_FAILED, _AFTER, "once that is put right, use {again}"),
    FailureKind.START_REFUSED: FailureAdvice(
        _R.START_FAILED,
        _AFTER,
        "what its execution profile names the operator changes in the service's settings, and then {again} "
        "is taken; what the step asks for is changed in a new job",
    ),
    FailureKind.START_TOO_LATE: FailureAdvice(
        _R.START_FAILED,
        _NOW,
        "if it takes that long again, raise ttl_seconds_before_active of its execution profile in the "
        "service's settings",
    ),
    FailureKind.START_CHECKPOINT_GONE: FailureAdvice(
        _R.START_FAILED, _NOW, "{again} goes on from the newest one that is there"
    ),
    FailureKind.FOLDERS_NOT_MADE: FailureAdvice(
        _R.CREATION_FAILED,
        _AFTER,
        "see that the service can write to its data directory, where its log says why it could not, and use "
        "{again}",
    ),
    FailureKind.NO_PROGRESS: FailureAdvice(
        _R.INTERRUPTED_WITHOUT_PROGRESS,
        _AFTER,
        "give its allocations more time (`time` of its execution profile) and use {again}, or save more "
        "often in a new job",
    ),
    FailureKind.BUDGET_SPENT: FailureAdvice(
        _R.CONTINUATION_BUDGET_SPENT,
        _NOW,
        "{again} may go on as often and for as long again; what limits that are max_continuations and "
        "max_walltime_seconds",
    ),
    FailureKind.PAUSE_DEADLINE: FailureAdvice(
        _R.PAUSE_DEADLINE_MISSED,
        _NOW,
        "where a save takes longer than its pause deadline, raise pause_deadline_seconds of the step in a "
        "new job",
    ),
    FailureKind.PAUSE_WITHOUT_CHECKPOINT: FailureAdvice(_R.CHECKPOINT_NOT_VERIFIED, _NOW),
}
"""What helps after each kind of failure."""

OF_REASON: Mapping[StatusReason, FailureKind] = {
    StatusReason.CREATION_FAILED: FailureKind.FOLDERS_NOT_MADE,
    StatusReason.INTERRUPTED_WITHOUT_PROGRESS: FailureKind.NO_PROGRESS,
    StatusReason.CONTINUATION_BUDGET_SPENT: FailureKind.BUDGET_SPENT,
    StatusReason.DISK_FULL: FailureKind.DISK_FULL,
    StatusReason.LOST: FailureKind.LOST,
    StatusReason.START_FAILED: FailureKind.START_TOO_LATE,
    StatusReason.STALE: FailureKind.STALE,
    StatusReason.PAUSE_DEADLINE_MISSED: FailureKind.PAUSE_DEADLINE,
    StatusReason.CHECKPOINT_NOT_VERIFIED: FailureKind.PAUSE_WITHOUT_CHECKPOINT,
}
"""The kinds that follow from the controller's own reason; the others are found in how a workload ended."""


def advised(kind: FailureKind, *, job: str, workspace: str, program: str = "", file: str = "") -> str | None:
    """What to do, for people; ``program`` is what was run, ``file`` what it could not use."""
    text = ADVICE[kind].text
    if text is None:
        return None
    again = f"`nemo jobs rerun {job} --workspace {workspace}`"
    return text.format(job=job, workspace=workspace, again=again, program=program, file=file)


def rerun_details(kind: FailureKind, clause: str) -> dict[str, str | bool | None]:
    """Whether a rerun helps, for the error details; ``clause`` says what it would do (``goes on from …``).

    Clients of earlier versions read ``rerun`` alone, which is null where a rerun never helps.
    """
    helps = ADVICE[kind].rerun
    return {
        "rerun": None if helps is RerunHelps.NEVER else clause,
        "rerun_after_change": helps is RerunHelps.AFTER_CHANGE,
    }
