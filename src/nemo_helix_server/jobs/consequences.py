"""What an action will do to a job, and what is lost by it, said before it is asked for. Pure.

Whether it is allowed is decided by `action_rules`; this is for one that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs import states
from nemo_helix_server.jobs.action_rules import JobAction
from nemo_helix_server.jobs.states import StatusEvent
from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words
from nemo_runs.sizes import size_in_words

_NOTHING = "Nothing is lost."


class Consequences(NamedTuple):
    """Two plain sentences or more each."""

    does: str
    loses: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """What an action changes of a job; durations in seconds."""

    step: str
    """The name of its current step."""
    step_status: Status
    trained_to: int | None = None
    """The training step that it has come to; `None`: no training has begun."""
    kept_step: int | None = None
    """The training step of its newest checkpoint that can be used; `None`: there is none."""
    checkpoints: int = 0
    pinned: int = 0
    storage_bytes: int | None = None
    pause_deadline_seconds: int = 0
    pause_window_seconds: int = 0
    """How long its storage would be kept from a pause."""
    maximum_window_seconds: int = 0
    rerun: str = "runs it again"
    """What a rerun would do, such as ``goes on from its checkpoint of step 40``."""


def of(action: JobAction, standing: JobStanding) -> Consequences:
    """What an allowed action would do."""
    return _OF[action](standing)


def _pause(now: JobStanding) -> Consequences:
    window = (
        f"Its storage is kept for {duration_in_words(now.pause_window_seconds)} from the pause; after that "
        "the job is cancelled and its storage is deleted."
    )
    if states.after(now.step_status, StatusEvent.PAUSE_REQUESTED) is Status.PAUSED:
        return Consequences(f"Nothing of it runs, so it is paused at once. {window}", _NOTHING)
    deadline = duration_in_words(now.pause_deadline_seconds)
    return Consequences(
        f"Step {now.step} saves a checkpoint and stops. It has {deadline} for that, or else the job ends in "
        f"error. {window}",
        "No training step is lost: a resume goes on from that checkpoint.",
    )


def _resume(now: JobStanding) -> Consequences:
    if now.step_status is Status.PAUSING:
        return Consequences(
            f"The pause is withdrawn, and step {now.step} goes on. One that is about to stop starts again "
            "from the checkpoint that it saves.",
            _NOTHING,
        )
    start = "from its beginning" if now.kept_step is None else f"from its checkpoint of step {now.kept_step}"
    return Consequences(
        f"Step {now.step} starts again {start}, as soon as there is capacity. The storage window ends; "
        "the next pause has a whole one.",
        _repeated(now) or _NOTHING,
    )


def _rerun(now: JobStanding) -> Consequences:
    return Consequences(
        f"A new attempt with the same configuration {now.rerun}. The storage window ends.",
        f"{_repeated(now)} The failed attempt stays on record, with its log.".strip(),
    )


def _cancel(now: JobStanding) -> Consequences:
    return Consequences(
        f"Step {now.step} is stopped, with everything it started. A cancelled job cannot be resumed or run "
        "again.",
        f"{_storage(now)} {_pinned(now)}",
    )


def _control(now: JobStanding) -> Consequences:
    most = duration_in_words(now.maximum_window_seconds)
    return Consequences(
        f"The storage of the job is kept until another time, at most {most} after it stopped.",
        "Nothing is lost by a later time.",
    )


def _delete(now: JobStanding) -> Consequences:
    return Consequences(
        "The job is removed, with its attempts, configuration, metrics and log. Its name is free "
        "again. This cannot be undone.",
        f"{_storage(now)} {_pinned(now)} What it published in filesets and models stays.",
    )


def _repeated(now: JobStanding) -> str:
    if now.trained_to is None or now.trained_to <= (now.kept_step or 0):
        return ""
    return f"{counted(now.trained_to - (now.kept_step or 0), 'training step')} are done again."


def _storage(now: JobStanding) -> str:
    held = [counted(now.checkpoints, "checkpoint")] if now.checkpoints else []
    held += [size_in_words(now.storage_bytes)] if now.storage_bytes else []
    said = f" ({', '.join(held)})" if held else ""
    return f"Its storage is deleted{said}."


def _pinned(now: JobStanding) -> str:
    if not now.pinned:
        return "No checkpoint is pinned, so none is left."
    return f"{counted(now.pinned, 'pinned checkpoint')} {'stays' if now.pinned == 1 else 'stay'}."


_OF: dict[JobAction, Callable[[JobStanding], Consequences]] = {
    JobAction.PAUSE: _pause,
    JobAction.RESUME: _resume,
    JobAction.RERUN: _rerun,
    JobAction.CANCEL: _cancel,
    JobAction.CONTROL: _control,
    JobAction.DELETE: _delete,
}
