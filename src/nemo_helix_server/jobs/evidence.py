"""Why a workload failed, what helps, and whether the same again would fail the same way.

Everything is read from what the workload left. An advice names what can really be done: a rerun has the same
configuration, so what only another configuration fixes needs a new job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nemo_helix_server.jobs.states import StatusReason
from nemo_trainer.contract import names


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitFacts:
    """What was seen of a workload's end."""

    exit_status: int | None
    """None: nobody saw it."""
    signal: int | None = None
    out_of_memory: bool = False
    """The kernel, or the memory limit of the step, ended it."""
    disk_full: bool = False
    """The disk had no space for the last that it or its shim had to write."""
    timed_out: bool = False
    """The time limit of the step ended it."""
    lost: bool = False
    environment_changed: bool = False
    """The image or environment differs from the one that saved the checkpoint."""
    contract: bool = True
    """Whether its exit statuses mean what the contract of trainers says: it is one, or has left its files."""
    error_type: str | None = None
    """The class of the error that the workload says it ended with."""
    checkpoints: int = 0
    """How many whole checkpoints there are to go on from."""
    others: int = 0
    """How many of them it was not to start from."""
    named: bool = False
    """Whether it was to start from a checkpoint that a user named."""
    memory_limited: bool = False
    """Whether the step has a memory limit of its own."""
    program: str = "its command"
    """What was run."""
    job: str = "NAME"
    workspace: str = "default"

    def command(self, verb: str, more: str = "") -> str:
        """A command about the job, for people."""
        return f"`nemo jobs {verb} {self.job} --workspace {self.workspace}{more}`"

    @property
    def again(self) -> str:
        """The command that runs the job again."""
        return self.command("rerun")


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A cause, in words for people."""

    kind: StatusReason
    message: str
    """What happened, one sentence."""
    advice: str | None
    """What to change before trying again; None where trying again may well work."""
    resumable: bool
    """Whether the same configuration can be expected to get further, with nothing else changed."""
    rerun_can_help: bool = True
    """Whether a rerun can succeed at all, at least once the advice was followed."""

    @property
    def rerun_warning(self) -> str | None:
        """A warning for a rerun; None when nothing speaks against it."""
        return None if self.resumable else f"{self.message}; {self.advice}" if self.advice else self.message


def classify(facts: ExitFacts, tail: Iterable[str]) -> FailureCause:
    """The most likely cause; `tail` is the end of the log, oldest line first."""
    found = _from_end(facts) or _from_contract(facts) or _from_log(facts, tail) or _from_status(facts)
    if facts.environment_changed and found.resumable:
        return FailureCause(
            found.kind,
            f"{found.message}, after its image or environment had changed",
            f"bring back what the checkpoint was saved with and use {facts.again}, or create a new job",
            resumable=False,
        )
    return found


def _from_end(facts: ExitFacts) -> FailureCause | None:
    if facts.out_of_memory:
        return _memory(facts)
    if facts.timed_out:
        return _time(facts)
    if facts.disk_full:
        return _full_disk(facts)
    if facts.lost or facts.exit_status is None:
        return FailureCause(
            StatusReason.LOST, "the workload is gone and left no exit status", None, resumable=True
        )
    return None


def _memory(facts: ExitFacts) -> FailureCause:
    if facts.memory_limited:
        return FailureCause(
            StatusReason.OUT_OF_MEMORY,
            "the step's memory limit was not enough",
            "raise resources.limits.memory of the step, or load less at once, in a new job",
            resumable=False,
            rerun_can_help=False,
        )
    return FailureCause(
        StatusReason.OUT_OF_MEMORY,
        "the machine's memory was not enough",
        f"free memory on the machine and use {facts.again}, or load less at once in a new job",
        resumable=False,
    )


def _time(facts: ExitFacts) -> FailureCause:
    limit = "raise ttl_seconds_active of its execution profile in the service's settings"
    if facts.checkpoints:
        advice = f"{facts.again} goes on for as long again; or {limit}"
        return FailureCause(
            StatusReason.TIME_LIMIT, "the step's time limit was reached", advice, resumable=True
        )
    return FailureCause(
        StatusReason.TIME_LIMIT,
        "the step's time limit was reached",
        f"there is no checkpoint to go on from: {limit} and use {facts.again}",
        resumable=False,
    )


def _from_contract(facts: ExitFacts) -> FailureCause | None:
    """What the workload's exit status means by the contract; it knows better than its log."""
    rule = _CONTRACT.get(facts.exit_status or 0) if facts.contract else None
    return rule(facts) if rule else None


def _bad_spec(_facts: ExitFacts) -> FailureCause:
    return FailureCause(
        StatusReason.WORKLOAD_FAILED,
        "the trainer refused its specification",
        "correct the specification in a new job",
        resumable=False,
        rerun_can_help=False,
    )


def _no_engine(facts: ExitFacts) -> FailureCause:
    return FailureCause(
        StatusReason.WORKLOAD_FAILED,
        "the training engine cannot be used here",
        f"do what the last line of its log says and use {facts.again}, or choose another engine in a new job",
        resumable=False,
    )


def _unusable_checkpoint(facts: ExitFacts) -> FailureCause:
    if facts.error_type == names.INPUTS_CHANGED:
        return FailureCause(
            StatusReason.WORKLOAD_FAILED,
            "what it trains on, or how, has changed since its checkpoint was saved",
            f"put back what was there and use {facts.again}, or create a new job; another checkpoint does "
            "not help",
            resumable=False,
        )
    which = "the checkpoint that was named" if facts.named else "its newest checkpoint"
    if not facts.others:
        return FailureCause(
            StatusReason.WORKLOAD_FAILED,
            f"{which} could not be used",
            "there is no other one to go on from: create a new job",
            resumable=False,
            rerun_can_help=False,
        )
    listing = facts.command("checkpoints list")
    return FailureCause(
        StatusReason.WORKLOAD_FAILED,
        f"{which} could not be used",
        f"name another one, of those that {listing} shows: {facts.command('rerun', ' --checkpoint ID')}",
        resumable=False,
    )


def _diverged(_facts: ExitFacts) -> FailureCause:
    return FailureCause(
        StatusReason.WORKLOAD_FAILED,
        "training diverged: a loss was not a number",
        "lower the learning rate in a new job",
        resumable=False,
        rerun_can_help=False,
    )


_CONTRACT: dict[int, Callable[[ExitFacts], FailureCause]] = {
    names.EXIT_BAD_SPEC: _bad_spec,
    names.EXIT_ENGINE_UNAVAILABLE: _no_engine,
    names.EXIT_CHECKPOINT_UNUSABLE: _unusable_checkpoint,
    names.EXIT_DIVERGED: _diverged,
}


def _gpu_memory(_facts: ExitFacts, _found: re.Match[str]) -> FailureCause:
    return FailureCause(
        StatusReason.OUT_OF_MEMORY,
        "the GPU's memory was not enough",
        "lower the batch size, the sequence length or the number of trained parameters in a new job",
        resumable=False,
        rerun_can_help=False,
    )


def _full_disk(facts: ExitFacts) -> FailureCause:
    return FailureCause(
        StatusReason.DISK_FULL,
        "the disk is full",
        f"free space and use {facts.again}",
        resumable=False,
    )


def _other_version(facts: ExitFacts, found: re.Match[str]) -> FailureCause:
    what, where = found["name"], found["module"]
    return FailureCause(
        StatusReason.WORKLOAD_FAILED,
        f"the Python module {where} has no {what}: another version is installed than it needs",
        f"install the version that it needs for {facts.program} and use {facts.again}, or name another "
        "interpreter in a new job",
        resumable=False,
    )


def _missing_module(facts: ExitFacts, found: re.Match[str]) -> FailureCause:
    named = found["module"]
    return FailureCause(
        StatusReason.WORKLOAD_FAILED,
        f"the Python module {named}, which it needs, is not installed",
        f"install it for {facts.program} and use {facts.again}, or name another interpreter in a new job",
        resumable=False,
    )


_Explain = Callable[[ExitFacts, re.Match[str]], FailureCause]
_GPU_FULL = (
    r"CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED|HIP out of memory|torch\.(cuda\.)?OutOfMemoryError"
    r"|CUDA error: out of memory|No available memory for the cache blocks"
)
_DISK_FULL = (
    r"No space left on device|ENOSPC|Disk quota exceeded|no space is left on the disk"
    r"|could not be written: the disk is full"
)
_MEMORY_FULL = (
    r"\bMemoryError\b|Cannot allocate memory|std::bad_alloc|DefaultCPUAllocator: (can't|not enough)"
)
_NO_MODULE = r"\bNo module named '?(?P<module>[\w.]+)'?"
_NO_NAME = r"ImportError: cannot import name '(?P<name>[\w.]+)' from '(?P<module>[\w.]+)'"
_SIGNS: tuple[tuple[re.Pattern[str], _Explain], ...] = (
    (re.compile(_GPU_FULL, re.IGNORECASE), _gpu_memory),
    (re.compile(_DISK_FULL, re.IGNORECASE), lambda facts, _found: _full_disk(facts)),
    (re.compile(_MEMORY_FULL, re.IGNORECASE), lambda facts, _found: _memory(facts)),
    (re.compile(_NO_MODULE), _missing_module),
    (re.compile(_NO_NAME), _other_version),
)
_PASSED_OVER = re.compile(
    r"\w*warn(ing)?\b|falling back|fall back|skipp(ed|ing)|ignor(ed|ing)", re.IGNORECASE
)
"""Where a line says so, what it names did not end the workload."""


def _from_log(facts: ExitFacts, tail: Iterable[str]) -> FailureCause | None:
    """The last line that says something known counts."""
    for line in reversed(list(tail)):
        if _PASSED_OVER.search(line):
            continue
        for pattern, explain in _SIGNS:
            if found := pattern.search(line):
                return explain(facts, found)
    return None


def _from_status(facts: ExitFacts) -> FailureCause:
    how = f"was ended by signal {facts.signal}" if facts.signal else f"exited with status {facts.exit_status}"
    return FailureCause(StatusReason.WORKLOAD_FAILED, f"the workload {how}", None, resumable=True)
