"""Why a workload failed: its cause, read from what it left. What helps then is in `advice`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from nemo_helix_server.jobs.advice import ADVICE, FailureKind, RerunHelps, advised
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
    no_program: str = ""
    """What could not be run at all, such as its command or what was to start that; empty: it was run."""
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


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A cause, in words for people."""

    kind: FailureKind
    message: str
    """What happened, one sentence."""
    advice: str | None = None
    """What to do; `None` where there is nothing to do but to try again."""

    @property
    def reason(self) -> StatusReason:
        """Of the job that failed."""
        return ADVICE[self.kind].reason

    @property
    def resumable(self) -> bool:
        """Whether the same configuration can be expected to get further, with nothing else changed."""
        return ADVICE[self.kind].rerun is RerunHelps.NOW

    @property
    def rerun_warning(self) -> str | None:
        """A warning for a rerun; `None` when nothing speaks against it."""
        return None if self.resumable else f"{self.message}; {self.advice}" if self.advice else self.message


def _cause(facts: ExitFacts, kind: FailureKind, message: str, file: str = "") -> FailureCause:
    text = advised(kind, job=facts.job, workspace=facts.workspace, program=facts.program, file=file)
    return FailureCause(kind, message, text)


def classify(facts: ExitFacts, tail: Iterable[str]) -> FailureCause:
    """The most likely cause; `tail` is the end of the log, oldest line first."""
    found = _from_end(facts) or _from_contract(facts) or _from_log(facts, tail) or _from_status(facts)
    if facts.environment_changed and found.resumable:
        message = f"{found.message}, after its image or environment had changed"
        return _cause(facts, FailureKind.ENVIRONMENT_CHANGED, message)
    return found


def _from_end(facts: ExitFacts) -> FailureCause | None:
    if facts.out_of_memory:
        return _memory(facts)
    if facts.timed_out:
        kind = FailureKind.TIME_LIMIT if facts.checkpoints else FailureKind.TIME_LIMIT_WITHOUT_CHECKPOINT
        return _cause(facts, kind, "the step's time limit was reached")
    if facts.disk_full:
        return _full_disk(facts)
    if facts.lost or facts.exit_status is None:
        return _cause(facts, FailureKind.LOST, "the workload is gone and left no exit status")
    if facts.no_program:
        missing = replace(facts, program=facts.no_program)
        return _cause(missing, FailureKind.NO_PROGRAM, f"{facts.no_program} cannot be run there")
    return None


def _memory(facts: ExitFacts) -> FailureCause:
    if facts.memory_limited:
        return _cause(facts, FailureKind.MEMORY_LIMIT, "the step's memory limit was not enough")
    return _cause(facts, FailureKind.MACHINE_MEMORY, "the machine's memory was not enough")


def _full_disk(facts: ExitFacts) -> FailureCause:
    return _cause(facts, FailureKind.DISK_FULL, "the disk is full")


def _from_contract(facts: ExitFacts) -> FailureCause | None:
    """What the workload's exit status means by the contract; it knows better than its log."""
    if not facts.contract:
        return None
    if facts.exit_status == names.EXIT_CHECKPOINT_UNUSABLE:
        return _unusable_checkpoint(facts)
    found = _CONTRACT.get(facts.exit_status or 0)
    return _cause(facts, *found) if found else None


def _unusable_checkpoint(facts: ExitFacts) -> FailureCause:
    if facts.error_type == names.INPUTS_CHANGED:
        said = "what it trains on, or how, has changed since its checkpoint was saved"
        return _cause(facts, FailureKind.INPUTS_CHANGED, said)
    which = "the checkpoint that was named" if facts.named else "its newest checkpoint"
    kind = FailureKind.CHECKPOINT_UNUSABLE if facts.others else FailureKind.LAST_CHECKPOINT_UNUSABLE
    return _cause(facts, kind, f"{which} could not be used")


_CONTRACT: Mapping[int, tuple[FailureKind, str]] = {
    names.EXIT_BAD_SPEC: (FailureKind.BAD_SPEC, "the trainer refused its specification"),
    names.EXIT_ENGINE_UNAVAILABLE: (FailureKind.NO_ENGINE, "the training engine cannot be used here"),
    names.EXIT_DIVERGED: (FailureKind.DIVERGED, "training diverged: a loss was not a number"),
}


def _gpu_memory(facts: ExitFacts, _found: re.Match[str]) -> FailureCause:
    return _cause(facts, FailureKind.GPU_MEMORY, "the GPU's memory was not enough")


def _other_version(facts: ExitFacts, found: re.Match[str]) -> FailureCause:
    what, where = found["name"], found["module"]
    message = f"the Python module {where} has no {what}: another version is installed than it needs"
    return _cause(facts, FailureKind.OTHER_VERSION, message)


def _missing_module(facts: ExitFacts, found: re.Match[str]) -> FailureCause:
    message = f"the Python module {found['module']}, which it needs, is not installed"
    return _cause(facts, FailureKind.MISSING_MODULE, message)


def _no_permission(facts: ExitFacts, found: re.Match[str]) -> FailureCause:
    file = found["file"]
    return _cause(facts, FailureKind.NO_PERMISSION, f"it may not use {file}", file)


def _no_file(facts: ExitFacts, found: re.Match[str]) -> FailureCause:
    file = found["file"]
    return _cause(facts, FailureKind.NO_FILE, f"{file}, which it needs, is not there", file)


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
_NO_PERMISSION = r"PermissionError: \[Errno (?:1|13)\] [^:]*: (?P<file>'[^']+'|\"[^\"]+\")"
_NO_FILE = r"FileNotFoundError: \[Errno 2\] [^:]*: (?P<file>'[^']+'|\"[^\"]+\")"
_NO_MODULE = r"\bNo module named '?(?P<module>[\w.]+)'?"
_NO_NAME = r"ImportError: cannot import name '(?P<name>[\w.]+)' from '(?P<module>[\w.]+)'"
_SIGNS: tuple[tuple[re.Pattern[str], _Explain], ...] = (
    (re.compile(_GPU_FULL, re.IGNORECASE), _gpu_memory),
    (re.compile(_DISK_FULL, re.IGNORECASE), lambda facts, _found: _full_disk(facts)),
    (re.compile(_MEMORY_FULL, re.IGNORECASE), lambda facts, _found: _memory(facts)),
    (re.compile(_NO_MODULE), _missing_module),
    (re.compile(_NO_NAME), _other_version),
)
_LAST_ERRORS: tuple[tuple[re.Pattern[str], _Explain], ...] = (
    (re.compile(_NO_PERMISSION), _no_permission),
    (re.compile(_NO_FILE), _no_file),
)
"""Signs that programs also log of what they can do without: they count where no other error follows them."""
_ERROR = re.compile(r"(^|\s)[A-Za-z_][\w.]*(Error|Exception): ")
_OF_ANOTHER = re.compile(r"\b(ChildFailedError|CalledProcessError)\b")
"""An error that says only that another process has failed."""
_CAUSED = "was the direct cause of the following exception"
_PASSED_OVER = re.compile(
    r"\w*warn(ing)?\b|falling back|fall back|skipp(ed|ing)|ignor(ed|ing)", re.IGNORECASE
)
"""Where a line says so, what it names did not end the workload."""


def _from_log(facts: ExitFacts, tail: Iterable[str]) -> FailureCause | None:
    """The last line that says something known counts."""
    another = False
    for line in reversed(list(tail)):
        if _PASSED_OVER.search(line):
            continue
        for pattern, explain in _SIGNS if another else (*_SIGNS, *_LAST_ERRORS):
            if found := pattern.search(line):
                return explain(facts, found)
        if _CAUSED in line:
            another = False
        elif _ERROR.search(line) and not _OF_ANOTHER.search(line):
            another = True
    return None


def _from_status(facts: ExitFacts) -> FailureCause:
    how = f"was ended by signal {facts.signal}" if facts.signal else f"exited with status {facts.exit_status}"
    return _cause(facts, FailureKind.UNKNOWN, f"the workload {how}")
