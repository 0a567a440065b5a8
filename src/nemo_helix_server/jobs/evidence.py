"""Why a workload failed, and whether the same again would fail the same way: read from what it left."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nemo_helix_server.jobs.states import Reason
from nemo_trainer.contract import names


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitFacts:
    """What was seen of a workload's end."""

    exit_status: int | None
    """None: nobody saw it."""
    signal: int | None = None
    out_of_memory: bool = False
    """The kernel, or the memory limit of the step, ended it."""
    timed_out: bool = False
    """The time limit of the step ended it."""
    lost: bool = False
    environment_changed: bool = False
    """The image or environment differs from the one that saved the checkpoint."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause, in words for people."""

    kind: Reason
    message: str
    """What happened, one sentence."""
    advice: str | None
    """What to change before trying again; None where trying again may well work."""
    resumable: bool
    """Whether the same configuration can be expected to get further."""

    @property
    def rerun_warning(self) -> str | None:
        """What a rerun should be told; None when nothing speaks against it."""
        return None if self.resumable else f"{self.message}; {self.advice}" if self.advice else self.message


@dataclass(frozen=True, slots=True)
class _Sign:
    pattern: re.Pattern[str]
    kind: Reason
    message: str
    advice: str


def _sign(pattern: str, kind: Reason, message: str, advice: str) -> _Sign:
    return _Sign(re.compile(pattern, re.IGNORECASE), kind, message, advice)


_SMALLER = "lower the batch size, the sequence length or the number of trained parameters in a new job"
_SIGNS = (
    _sign(
        r"CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED|HIP out of memory|torch\.(cuda\.)?OutOfMemoryError"
        r"|CUDA error: out of memory|No available memory for the cache blocks",
        Reason.OUT_OF_MEMORY,
        "the GPU's memory was not enough",
        _SMALLER,
    ),
    _sign(
        r"No space left on device|ENOSPC|Disk quota exceeded|no space is left on the disk"
        r"|could not be written: the disk is full",
        Reason.DISK_FULL,
        "the disk is full",
        "free space, or keep fewer checkpoints, before running it again",
    ),
    _sign(
        r"\bMemoryError\b|Cannot allocate memory|std::bad_alloc|DefaultCPUAllocator: (can't|not enough)",
        Reason.OUT_OF_MEMORY,
        "the machine's memory, or the step's limit of it, was not enough",
        "raise the step's memory limit, or load less at once, in a new job",
    ),
    _sign(
        r"\bModuleNotFoundError\b|\bNo module named \S|ImportError: cannot import name",
        Reason.WORKLOAD_FAILED,
        "a Python module that it needs is not installed",
        "install it where the command runs, or name another interpreter in a new job",
    ),
)
_BAD_SPEC, _ENGINE_UNAVAILABLE = names.EXIT_BAD_SPEC, names.EXIT_ENGINE_UNAVAILABLE
_CHECKPOINT_UNUSABLE, _DIVERGED = names.EXIT_CHECKPOINT_UNUSABLE, names.EXIT_DIVERGED
_EXITS: dict[int, tuple[str, str]] = {
    _BAD_SPEC: ("the trainer refused its specification", "correct the specification in a new job"),
    _ENGINE_UNAVAILABLE: (
        "the training engine cannot be used here",
        "install the engine, or choose another one in a new job",
    ),
    _CHECKPOINT_UNUSABLE: (
        "the checkpoint could not be used",
        "name another one with `nemo jobs rerun --checkpoint`",
    ),
    _DIVERGED: ("training diverged: a loss was not a number", "lower the learning rate in a new job"),
}


def classify(facts: ExitFacts, tail: Iterable[str]) -> Cause:
    """The most likely cause; `tail` is the end of the log, oldest line first."""
    found = _from_end(facts) or _from_log(tail) or _from_status(facts)
    if facts.environment_changed and found.resumable:
        return Cause(
            found.kind,
            f"{found.message}, after its image or environment had changed",
            "bring back what the checkpoint was saved with, or create a new job",
            resumable=False,
        )
    return found


def _from_end(facts: ExitFacts) -> Cause | None:
    if facts.out_of_memory:
        return Cause(
            Reason.OUT_OF_MEMORY,
            "the machine's memory, or the step's limit of it, was not enough",
            "raise the step's memory limit, or load less at once, in a new job",
            resumable=False,
        )
    if facts.timed_out:
        return Cause(
            Reason.TIME_LIMIT,
            "the step's time limit was reached",
            "rerun to go on for as long again, or raise ttl_seconds_active of its execution profile",
            resumable=True,
        )
    if facts.lost or facts.exit_status is None:
        return Cause(Reason.LOST, "the workload is gone and left no exit status", None, resumable=True)
    return None


def _from_log(tail: Iterable[str]) -> Cause | None:
    """The last line that says something known counts."""
    for line in reversed(list(tail)):
        for sign in _SIGNS:
            if sign.pattern.search(line):
                return Cause(sign.kind, sign.message, sign.advice, resumable=False)
    return None


def _from_status(facts: ExitFacts) -> Cause:
    if facts.signal:
        return Cause(
            Reason.WORKLOAD_FAILED, f"the workload was ended by signal {facts.signal}", None, resumable=True
        )
    status = facts.exit_status
    known = _EXITS.get(status) if status is not None else None
    if known is None:
        return Cause(
            Reason.WORKLOAD_FAILED, f"the workload exited with status {status}", None, resumable=True
        )
    message, advice = known
    return Cause(Reason.WORKLOAD_FAILED, message, advice, resumable=False)
