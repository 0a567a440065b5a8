"""How every status that is not an end comes to one: the deadlines, as data."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs.states import StatusEvent


@dataclass(frozen=True, slots=True)
class StatusDeadline:
    """How a transitional status ends for certain: a setting's seconds after it was entered, by an event."""

    status: Status
    setting: str | None
    """Setting or step field with the deadline in seconds; None where waiting has no limit of its own."""
    event: StatusEvent
    meaning: str


DEADLINES: tuple[StatusDeadline, ...] = (
    StatusDeadline(
        Status.CREATION_PENDING,
        "jobs.creation_deadline_seconds",
        StatusEvent.CREATION_FAILED,
        "the directories are made again at each pass until then",
    ),
    StatusDeadline(
        Status.CREATED, None, StatusEvent.CANCEL_REQUESTED, "the next pass starts it or says why it is queued"
    ),
    StatusDeadline(
        Status.QUEUED,
        None,
        StatusEvent.CANCEL_REQUESTED,
        "it waits for its turn as long as it takes, or is cancelled",
    ),
    StatusDeadline(
        Status.PENDING,
        "ttl_seconds_before_active",
        StatusEvent.FAILED,
        "the executor took it and it never ran; what it waits in the queue of a scheduler does not count",
    ),
    StatusDeadline(
        Status.RESUMING,
        None,
        StatusEvent.CANCEL_REQUESTED,
        "the next pass starts it or says why it is queued",
    ),
    StatusDeadline(
        Status.PAUSING,
        "lifecycle.pause_deadline_seconds",
        StatusEvent.PAUSE_DEADLINE_MISSED,
        "the workload is killed; rerun goes on from the newest verified checkpoint",
    ),
    StatusDeadline(
        Status.PAUSED,
        "jobs.storage.paused_storage_ttl_seconds",
        StatusEvent.WINDOW_EXPIRED,
        "or the job's own pause window",
    ),
    StatusDeadline(
        Status.CANCELLING,
        "jobs.cancel_deadline_seconds",
        StatusEvent.STOPPED,
        "the workload is killed, with everything that it started",
    ),
    StatusDeadline(
        Status.DELETION_PENDING,
        None,
        StatusEvent.DELETE_REQUESTED,
        "removal is tried at each pass until the record is gone",
    ),
)
