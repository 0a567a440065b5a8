"""What becomes of a task: one process of a step, which never starts again."""

from __future__ import annotations

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs.states import StatusEvent


def task_may_become(origin: Status, to: Status) -> bool:
    """Whether a task may go from one status to the other; the same status again is always accepted.

    A task is one process: it runs, is asked to pause or stop, and ends; it never starts again.
    """
    return origin == to or (not origin.is_settled and to in _TASK_STATUSES)


_TASK_STATUSES = frozenset(status for status in Status if status.reports_progress or status.is_settled)
_TASK_AFTER: dict[StatusEvent, Status] = {
    StatusEvent.STARTED: Status.ACTIVE,
    StatusEvent.FINISHED: Status.COMPLETED,
    StatusEvent.FAILED: Status.ERROR,
    StatusEvent.INTERRUPTED: Status.ERROR,
    StatusEvent.PAUSE_REQUESTED: Status.PAUSING,
    StatusEvent.PAUSE_WITHDRAWN: Status.ACTIVE,
    StatusEvent.PAUSE_WITHDRAWN_EARLY: Status.ACTIVE,
    StatusEvent.PAUSE_DEADLINE_MISSED: Status.ERROR,
    StatusEvent.CHECKPOINT_VERIFIED: Status.PAUSED,
    StatusEvent.CANCEL_REQUESTED: Status.CANCELLING,
    StatusEvent.STOPPED: Status.CANCELLED,
}


def task_after(task: Status, event: StatusEvent) -> Status | None:
    """What becomes of a step's newest task when the event happens to the step; None: it stays as it is."""
    to = _TASK_AFTER.get(event)
    return to if to is not None and to != task and task_may_become(task, to) else None
