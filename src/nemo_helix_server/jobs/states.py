"""The state machine of a job: one table, ``(status, event) -> status``. Nothing else assigns a status.

A step moves by an event. Statuses of attempt and job are derived from their steps, with two exceptions that
only a job has: a rerun gives it a new attempt, and one that is removed is ``deletion_pending`` until then.
``docs/reference/job-statuses.md`` is generated from this module and tested against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status


class Actor(StrEnum):
    """Who brings an event about."""

    USER = "user"
    CONTROLLER = "controller"
    RETENTION = "retention"
    SERVICE = "service"


class StatusEvent(StrEnum):
    """What can happen to a step, or to a job alone (`JOB_EVENTS`), in the past tense."""

    PREPARED = "prepared"
    CREATION_FAILED = "creation_failed"
    OUTPUTS_VERIFIED = "outputs_verified"
    DEFERRED = "deferred"
    ACCEPTED = "accepted"
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    PAUSE_REQUESTED = "pause_requested"
    PAUSE_WITHDRAWN = "pause_withdrawn"
    PAUSE_WITHDRAWN_EARLY = "pause_withdrawn_early"
    PAUSE_DEADLINE_MISSED = "pause_deadline_missed"
    CHECKPOINT_VERIFIED = "checkpoint_verified"
    RESUME_REQUESTED = "resume_requested"
    CANCEL_REQUESTED = "cancel_requested"
    WINDOW_EXPIRED = "window_expired"
    STOPPED = "stopped"
    DELETE_REQUESTED = "delete_requested"
    RERUN_REQUESTED = "rerun_requested"
    MADE = "made"
    """Something new came to be; it had no status before."""


class StatusReason(StrEnum):
    """Why a job is in its status, where the status alone does not say it."""

    CANCELLED_BY_USER = "cancelled_by_user"
    PAUSE_WINDOW_ENDED = "pause_window_ended"
    PAUSED_BY_USER = "paused_by_user"
    PAUSED_FOR_MAINTENANCE = "paused_for_maintenance"
    WAITING_FOR_CAPACITY = "waiting_for_capacity"
    INTERRUPTED = "interrupted"
    OUTPUTS_VERIFIED = "outputs_verified"
    CREATION_FAILED = "creation_failed"
    INTERRUPTED_WITHOUT_PROGRESS = "interrupted_without_progress"
    CONTINUATION_BUDGET_SPENT = "continuation_budget_spent"
    WORKLOAD_FAILED = "workload_failed"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    LOST = "lost"
    START_FAILED = "start_failed"
    TIME_LIMIT = "time_limit"
    STALE = "stale"
    PAUSE_DEADLINE_MISSED = "pause_deadline_missed"
    CHECKPOINT_NOT_VERIFIED = "checkpoint_not_verified"


REASONS: dict[StatusReason, Status] = {
    StatusReason.CANCELLED_BY_USER: Status.CANCELLED,
    StatusReason.PAUSE_WINDOW_ENDED: Status.CANCELLED,
    StatusReason.PAUSED_BY_USER: Status.PAUSED,
    StatusReason.PAUSED_FOR_MAINTENANCE: Status.PAUSED,
    StatusReason.WAITING_FOR_CAPACITY: Status.QUEUED,
    StatusReason.INTERRUPTED: Status.RESUMING,
    StatusReason.OUTPUTS_VERIFIED: Status.COMPLETED,
    **dict.fromkeys(
        (
            StatusReason.CREATION_FAILED,
            StatusReason.INTERRUPTED_WITHOUT_PROGRESS,
            StatusReason.CONTINUATION_BUDGET_SPENT,
            StatusReason.WORKLOAD_FAILED,
            StatusReason.OUT_OF_MEMORY,
            StatusReason.DISK_FULL,
            StatusReason.LOST,
            StatusReason.START_FAILED,
            StatusReason.TIME_LIMIT,
            StatusReason.STALE,
            StatusReason.PAUSE_DEADLINE_MISSED,
            StatusReason.CHECKPOINT_NOT_VERIFIED,
        ),
        Status.ERROR,
    ),
}
"""The status that each reason explains, once the job has settled."""


@dataclass(frozen=True, slots=True)
class StateEdge:
    """One edge of the machine."""

    origin: Status
    event: StatusEvent
    to: Status
    actor: Actor
    meaning: str


def _rows(
    origins: Sequence[Status], event: StatusEvent, to: Status, actor: Actor, meaning: str
) -> list[StateEdge]:
    return [StateEdge(origin, event, to, actor, meaning) for origin in origins]


S, E, A = Status, StatusEvent, Actor
WAITING = (S.CREATED, S.QUEUED)

TABLE: tuple[StateEdge, ...] = (
    *_rows([S.CREATION_PENDING], E.PREPARED, S.CREATED, A.SERVICE, "the job's directories exist"),
    *_rows([S.CREATION_PENDING], E.CREATION_FAILED, S.ERROR, A.CONTROLLER, "they could not be made"),
    *_rows([S.CREATION_PENDING], E.CANCEL_REQUESTED, S.CANCELLED, A.USER, "nothing had started"),
    *_rows(
        WAITING,
        E.OUTPUTS_VERIFIED,
        S.COMPLETED,
        A.CONTROLLER,
        "an earlier attempt completed this step and its outputs verify",
    ),
    *_rows(
        [S.CREATED, S.RESUMING], E.DEFERRED, S.QUEUED, A.CONTROLLER, "devices, slots or space are not free"
    ),
    *_rows(
        [*WAITING, S.RESUMING],
        E.ACCEPTED,
        S.PENDING,
        A.CONTROLLER,
        "the executor has it; written before the workload is started",
    ),
    *_rows(
        [*WAITING, S.PENDING, S.RESUMING], E.STARTED, S.ACTIVE, A.CONTROLLER, "the workload was seen running"
    ),
    *_rows(
        [S.PENDING, S.ACTIVE, S.PAUSING],
        E.FINISHED,
        S.COMPLETED,
        A.CONTROLLER,
        "the workload exited with status 0",
    ),
    *_rows(
        [*WAITING, S.PENDING, S.ACTIVE, S.PAUSING, S.RESUMING],
        E.FAILED,
        S.ERROR,
        A.CONTROLLER,
        "the workload failed, was lost, or could not be started",
    ),
    *_rows(
        [S.PENDING, S.ACTIVE, S.QUEUED],
        E.INTERRUPTED,
        S.RESUMING,
        A.CONTROLLER,
        "its allocation was taken away (the machine restarted, or a scheduler ended it), or a withdrawn "
        "pause was acted upon: it starts again from its checkpoint",
    ),
    *_rows(
        [S.PAUSING],
        E.INTERRUPTED,
        S.RESUMING,
        A.CONTROLLER,
        "its allocation was taken away and there is no checkpoint: the pause is withdrawn, and it starts "
        "again",
    ),
    *_rows(
        WAITING,
        E.PAUSE_REQUESTED,
        S.PAUSED,
        A.USER,
        "nothing runs, so nothing has to be saved",
    ),
    *_rows(
        [S.RESUMING],
        E.PAUSE_REQUESTED,
        S.PAUSED,
        A.USER,
        "between two allocations, where the job shows `active`: nothing runs",
    ),
    *_rows(
        [S.PENDING, S.ACTIVE],
        E.PAUSE_REQUESTED,
        S.PAUSING,
        A.USER,
        "the workload is asked to save a checkpoint and exit",
    ),
    *_rows(
        [S.PAUSING],
        E.PAUSE_WITHDRAWN,
        S.ACTIVE,
        A.USER,
        "resumed before the workload acted; or, by the controller, there was no disk space for a checkpoint, "
        "or training had completed",
    ),
    *_rows(
        [S.PAUSING],
        E.PAUSE_WITHDRAWN_EARLY,
        S.PENDING,
        A.USER,
        "resumed before the workload was seen running",
    ),
    *_rows(
        [S.PAUSING],
        E.PAUSE_DEADLINE_MISSED,
        S.ERROR,
        A.CONTROLLER,
        "no checkpoint and exit within the deadline",
    ),
    *_rows(
        [S.PAUSING],
        E.CHECKPOINT_VERIFIED,
        S.PAUSED,
        A.CONTROLLER,
        "the workload exited with status 75 and its checkpoint verifies; or its allocation was lost (a "
        "restart of the machine, a time limit, a signal from outside) and an earlier checkpoint verifies",
    ),
    *_rows([S.PAUSED], E.RESUME_REQUESTED, S.RESUMING, A.USER, "the step is to start again"),
    *_rows(WAITING, E.CANCEL_REQUESTED, S.CANCELLED, A.USER, "nothing runs, so nothing has to stop"),
    *_rows(
        [S.PENDING, S.ACTIVE, S.PAUSING, S.PAUSED, S.RESUMING],
        E.CANCEL_REQUESTED,
        S.CANCELLING,
        A.USER,
        "the workload is to be stopped",
    ),
    *_rows([S.PAUSED], E.WINDOW_EXPIRED, S.CANCELLING, A.RETENTION, "the pause window ended"),
    *_rows([S.CANCELLING], E.STOPPED, S.CANCELLED, A.CONTROLLER, "nothing of the workload is left"),
    *_rows(
        [S.CREATION_PENDING, S.COMPLETED, S.ERROR, S.CANCELLED],
        E.DELETE_REQUESTED,
        S.DELETION_PENDING,
        A.USER,
        "the job is to be removed; its steps keep their statuses",
    ),
    *_rows(
        [S.ERROR],
        E.RERUN_REQUESTED,
        S.CREATED,
        A.USER,
        "the job gets a new attempt; the failed one is kept as it is",
    ),
)

JOB_EVENTS = frozenset({E.DELETE_REQUESTED, E.RERUN_REQUESTED})
"""Events of a job as a whole: no step moves by them."""

_NEXT: dict[tuple[Status, StatusEvent], StateEdge] = {(row.origin, row.event): row for row in TABLE}


def row(status: Status, event: StatusEvent) -> StateEdge | None:
    """The edge that the event takes from the status; None where the event means nothing there."""
    return _NEXT.get((status, event))


def after(status: Status, event: StatusEvent) -> Status | None:
    """The status after the event; None where the event means nothing there."""
    edge = _NEXT.get((status, event))
    return edge.to if edge else None


def origins(event: StatusEvent) -> frozenset[Status]:
    """The statuses from which the event leads somewhere."""
    return frozenset(edge.origin for edge in TABLE if edge.event is event)


def outcomes(*events: StatusEvent) -> frozenset[Status]:
    """The statuses to which one of the events leads."""
    return frozenset(edge.to for edge in TABLE if edge.event in events)


def event_between(origin: Status, to: Status) -> StatusEvent | None:
    """The first event by which a step gets from one status to the other: for callers who name a status."""
    steps = (edge for edge in TABLE if edge.event not in JOB_EVENTS)
    return next((edge.event for edge in steps if (edge.origin, edge.to) == (origin, to)), None)


BETWEEN_ALLOCATIONS = frozenset({S.RESUMING, S.QUEUED, S.PENDING})
"""Statuses of a step that has lost its place and goes on by itself; its job stays active meanwhile."""


UNDISTURBED = origins(StatusEvent.FINISHED) & origins(StatusEvent.PAUSE_REQUESTED)
"""Statuses of a step that has a start which nobody wants to end."""


def derive_attempt(steps: Sequence[Status], planned: int, *, goes_on: bool = False) -> Status:
    """The status of an attempt from its steps, in order; `planned` is the number it will have when complete.

    The attempt shows its newest step's status. Between two steps, and while a later step is being started, it
    stays active; a later step that waits for capacity shows `queued`. It stays active, too, while its newest
    step waits for another allocation after it has lost one (``goes_on``).
    """
    newest = steps[-1]
    if goes_on and newest in BETWEEN_ALLOCATIONS:
        return S.ACTIVE
    if newest is S.COMPLETED:
        return S.COMPLETED if len(steps) >= planned else S.ACTIVE
    between = len(steps) > 1 and newest in {S.CREATED, S.PENDING}
    return S.ACTIVE if between else newest


def derive_job(attempt: Status, *, deleting: bool = False) -> Status:
    """The status of a job: its current attempt's, unless the job is being removed."""
    return S.DELETION_PENDING if deleting else attempt


DEFAULT_REASONS: dict[StatusEvent, StatusReason] = {
    E.CREATION_FAILED: StatusReason.CREATION_FAILED,
    E.OUTPUTS_VERIFIED: StatusReason.OUTPUTS_VERIFIED,
    E.DEFERRED: StatusReason.WAITING_FOR_CAPACITY,
    E.FAILED: StatusReason.WORKLOAD_FAILED,
    E.INTERRUPTED: StatusReason.INTERRUPTED,
    E.PAUSE_REQUESTED: StatusReason.PAUSED_BY_USER,
    E.PAUSE_DEADLINE_MISSED: StatusReason.PAUSE_DEADLINE_MISSED,
    E.CANCEL_REQUESTED: StatusReason.CANCELLED_BY_USER,
    E.WINDOW_EXPIRED: StatusReason.PAUSE_WINDOW_ENDED,
}
_KEEP_REASON = frozenset({E.STOPPED, E.CHECKPOINT_VERIFIED})


def reason_after(event: StatusEvent, before: str | None, given: StatusReason | None = None) -> str | None:
    """The reason after an event: the one given, the event's own, or the one that led here."""
    if given is not None:
        return given
    return before if event in _KEEP_REASON else DEFAULT_REASONS.get(event)
