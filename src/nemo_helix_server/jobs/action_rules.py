"""When each action is allowed: every status, every action, and a sentence where the two do not go together.

``docs/reference/job-statuses.md`` shows the same as a table; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs import states
from nemo_helix_server.jobs.states import StatusEvent, StatusReason


class JobAction(StrEnum):
    """What a user can ask of a job."""

    PAUSE = "pause"
    RESUME = "resume"
    RERUN = "rerun"
    CANCEL = "cancel"
    CONTROL = "control"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFacts:
    """What the decision depends on."""

    job: str
    workspace: str
    status: Status
    """The job's."""
    step: str
    step_status: Status
    pausable: bool
    """Whether the current step can be paused."""
    seen_running: bool = False
    """Whether the step's newest workload was seen running."""
    resumed: bool = False
    """Whether the step was paused once and resumed since."""
    reason: str | None = None
    reclaimed: bool = False
    """Whether the job's storage is deleted."""
    window_ended: bool = False
    """Whether it is about to be, because its window has ended."""
    rerun_can_help: bool = True
    """Whether a failed job may get through in a rerun; its configuration stays as it is."""
    pinned: bool = False
    """Whether a checkpoint was named that is kept outside of the storage."""

    def command(self, verb: str) -> str:
        """A command about this job, right whatever workspace the reader's context is in."""
        return f"`nemo jobs {verb} {self.job} --workspace {self.workspace}`"


@dataclass(frozen=True, slots=True)
class ActionAllowed:
    """The action is allowed and is this event; None: it changes no status."""

    event: StatusEvent | None


@dataclass(frozen=True, slots=True)
class NoChange:
    """What is asked for is so already, or on its way."""


@dataclass(frozen=True, slots=True)
class ActionRefused:
    """The action is not allowed."""

    sentence: str


Answer = ActionAllowed | NoChange | ActionRefused


S = Status
_NEW = "create a new job instead"
_ONLY = "only a job that ended in error can be run again"

_REFUSALS: dict[JobAction, dict[Status, str]] = {
    JobAction.PAUSE: {
        S.CREATION_PENDING: "job {job} is still being prepared; pause it again in a moment",
        S.RESUMING: "job {job} is resuming; wait until step {step} is active and pause it then, or stop the"
        " job for good with {cancel}",
        S.CANCELLING: "job {job} is being cancelled and cannot be paused any more",
        S.CANCELLED: "job {job} is cancelled, so there is nothing to pause",
        S.COMPLETED: "job {job} is completed, so there is nothing to pause",
        S.ERROR: "job {job} ended in error, so there is nothing to pause; {again}",
    },
    JobAction.RESUME: {
        S.CREATION_PENDING: "job {job} is still being prepared and not paused; it starts by itself",
        S.CREATED: "job {job} is created and not paused; it starts by itself",
        S.QUEUED: "job {job} is queued and not paused; it starts by itself, see {get-status}",
        S.PENDING: "job {job} is pending and not paused; step {step} is being started",
        S.CANCELLING: f"job {{job}} is being cancelled and cannot be resumed; {_NEW}",
        S.CANCELLED: f"{{cancelled}} and cannot be resumed; {_NEW}",
        S.COMPLETED: "job {job} completed already, so there is nothing to resume",
        S.ERROR: "job {job} ended in error and is not paused; {again}",
    },
    JobAction.RERUN: {
        **dict.fromkeys(
            (status for status in S if status.is_under_way and status is not S.PAUSING),
            f"job {{job}} is {{status}} in step {{step}}, and {_ONLY}",
        ),
        S.PAUSING: f"job {{job}} is pausing, and {_ONLY}; use {{resume}} to resume it",
        S.PAUSED: f"job {{job}} is paused, and {_ONLY}; use {{resume}}",
        S.CANCELLED: f"{{cancelled}}, and {_ONLY}; {_NEW}",
        S.COMPLETED: f"job {{job}} is completed, and {_ONLY}; {_NEW}",
    },
    JobAction.DELETE: {
        **dict.fromkeys(
            states.origins(StatusEvent.CANCEL_REQUESTED) - states.origins(StatusEvent.DELETE_REQUESTED),
            "job {job} is {status} and cannot be deleted; use {cancel} first",
        ),
        S.CANCELLING: "job {job} is being cancelled; delete it again when it is cancelled",
    },
    JobAction.UPDATE: dict.fromkeys(
        S, f"job {{job}} has an attempt that was made from its definition, which stays as it is; {_NEW}"
    ),
}
_UNPAUSABLE = (
    "step {step} of job {job} cannot be paused; pause the job when a training step is running, or stop it"
    " for good with {cancel}"
)
_WINDOW_ENDED = f"the pause window of job {{job}} has ended and its storage is deleted; {_NEW}"
_NOTHING_LEFT = (
    f"the storage of job {{job}} was deleted when its window ended, so it cannot be run again; {_NEW}"
)
_NO_WINDOW = f"the storage of job {{job}} is deleted already, so there is no window to change; {_NEW}"

_UNCHANGED: dict[JobAction, frozenset[Status]] = {
    JobAction.PAUSE: states.outcomes(StatusEvent.PAUSE_REQUESTED),
    JobAction.RESUME: states.outcomes(StatusEvent.PAUSE_WITHDRAWN, StatusEvent.RESUME_REQUESTED),
    JobAction.CANCEL: frozenset(s for s in S if s.is_terminal or s is S.CANCELLING),
    JobAction.DELETE: frozenset({S.DELETION_PENDING}),
}


_TAKEN_UP = states.outcomes(StatusEvent.DEFERRED, StatusEvent.ACCEPTED)
"""A step in one of these was considered after it was asked to start."""


def allowed(action: JobAction, facts: ActionFacts) -> Answer:
    """What an action means to a job."""
    if facts.status in _UNCHANGED.get(action, ()) or _started_again(action, facts):
        return NoChange()
    if facts.status is S.DELETION_PENDING:
        return _refused("job {job} is being deleted; create a new job instead", facts)
    sentence = _REFUSALS.get(action, {}).get(facts.status) or _WHEN[action](facts)
    return _refused(sentence, facts) if sentence else ActionAllowed(_event(action, facts))


def _started_again(action: JobAction, facts: ActionFacts) -> bool:
    """Whether a resume is asked for that happened already, and its step is on its way."""
    return action is JobAction.RESUME and facts.resumed and facts.status in _TAKEN_UP


def _unpausable(facts: ActionFacts) -> str | None:
    return None if facts.pausable else _UNPAUSABLE


def _window_ended(facts: ActionFacts) -> str | None:
    ended = facts.status is S.PAUSED and (facts.reclaimed or facts.window_ended)
    return _WINDOW_ENDED if ended else None


def _nothing_left(facts: ActionFacts) -> str | None:
    gone = facts.reclaimed or facts.window_ended
    return _NOTHING_LEFT if gone and not facts.pinned else None


def _no_window(facts: ActionFacts) -> str | None:
    return _NO_WINDOW if facts.reclaimed else None


def _never(facts: ActionFacts) -> str | None:  # noqa: ARG001 - one signature for all conditions
    return None


_WHEN: dict[JobAction, Callable[[ActionFacts], str | None]] = {
    JobAction.PAUSE: _unpausable,
    JobAction.RESUME: _window_ended,
    JobAction.RERUN: _nothing_left,
    JobAction.CANCEL: _never,
    JobAction.CONTROL: _no_window,
    JobAction.DELETE: _never,
    JobAction.UPDATE: _never,
}
"""What else speaks against an action in a status that allows it."""


def _event(action: JobAction, facts: ActionFacts) -> StatusEvent | None:
    """The event that an allowed action is."""
    if action is JobAction.RESUME and facts.status is S.PAUSING:
        return StatusEvent.PAUSE_WITHDRAWN if facts.seen_running else StatusEvent.PAUSE_WITHDRAWN_EARLY
    return {
        JobAction.PAUSE: StatusEvent.PAUSE_REQUESTED,
        JobAction.RESUME: StatusEvent.RESUME_REQUESTED,
        JobAction.RERUN: StatusEvent.RERUN_REQUESTED,
        JobAction.CANCEL: StatusEvent.CANCEL_REQUESTED,
        JobAction.DELETE: StatusEvent.DELETE_REQUESTED,
    }.get(action)


def _refused(sentence: str, facts: ActionFacts) -> ActionRefused:
    verbs = ("cancel", "resume", "rerun", "get-status")
    gone = facts.reclaimed or facts.window_ended
    again = f"use {facts.command('rerun')}" if facts.rerun_can_help else _NEW
    by_window = facts.reason == StatusReason.PAUSE_WINDOW_ENDED
    return ActionRefused(
        sentence.format(
            job=facts.job,
            step=facts.step,
            status=facts.status.value,
            again=f"its storage is deleted, so {_NEW}" if gone else again,
            cancelled=f"job {facts.job} was cancelled{' when its pause window ended' if by_window else ''}",
            **{verb: facts.command(verb) for verb in verbs},
        )
    )
