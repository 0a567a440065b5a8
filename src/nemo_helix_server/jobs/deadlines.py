"""How every status that is not an end comes to one: the deadlines, as data."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs.states import Event


@dataclass(frozen=True, slots=True)
class WayOut:
    """How a transitional status ends for certain: a setting's seconds after it was entered, by an event."""

    status: Status
    setting: str | None
    """Setting or step field with the deadline in seconds; None where waiting has no limit of its own."""
    event: Event
    meaning: str


WAYS_OUT: tuple[WayOut, ...] = (
    WayOut(
        Status.CREATION_PENDING,
        "jobs.creation_deadline_seconds",
        Event.CREATION_FAILED,
        "the directories are made again at each pass until then",
    ),
    WayOut(Status.CREATED, None, Event.CANCEL_REQUESTED, "the next pass starts it or says why it is queued"),
    WayOut(
        Status.QUEUED,
        None,
        Event.CANCEL_REQUESTED,
        "it waits for its turn as long as it takes, or is cancelled",
    ),
    WayOut(
        Status.PENDING, "ttl_seconds_before_active", Event.FAILED, "the executor took it and it never ran"
    ),
    WayOut(Status.RESUMING, None, Event.CANCEL_REQUESTED, "the next pass starts it or says why it is queued"),
    WayOut(
        Status.PAUSING,
        "lifecycle.pause_deadline_seconds",
        Event.PAUSE_DEADLINE_MISSED,
        "the workload is killed; rerun goes on from the newest verified checkpoint",
    ),
    WayOut(
        Status.PAUSED,
        "jobs.storage.paused_storage_ttl_seconds",
        Event.WINDOW_EXPIRED,
        "or the job's own pause window",
    ),
    WayOut(
        Status.CANCELLING,
        "jobs.cancel_deadline_seconds",
        Event.STOPPED,
        "the workload is killed, with everything that it started",
    ),
    WayOut(
        Status.DELETION_PENDING,
        None,
        Event.DELETE_REQUESTED,
        "removal is tried at each pass until the record is gone",
    ),
)
