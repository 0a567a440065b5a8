"""The story of one benchmark of a submission: a closed set of events in ``.gym_events.jsonl``."""

from __future__ import annotations

from enum import StrEnum

from nemo_runs.clock import SecondsClock, SystemClock, utc_text
from nemo_runs.durable.journal import Journal


class ChainEvent(StrEnum):
    """What can happen to a benchmark's jobs, in the past tense. The shell files write the same names."""

    SUBMITTED = "submitted"
    """A job was queued; ``job_id``, and ``cluster`` where the scheduler named one."""
    SUBMIT_FAILED = "submit_failed"
    """Queueing failed; ``error``."""
    QUEUED = "queued"
    """A job waits for its turn; ``job_id``."""
    JOB_STARTED = "job_started"
    """A job script began; ``job_id``, ``restart``, ``gym`` (the version that runs)."""
    JOB_DECIDED = "job_decided"
    """It decided from its predecessor's end whether to go on; ``action``, ``reason``."""
    SPACE_AWAITED = "room_awaited"
    """The job had waited for disk space on a full disk; ``seconds``."""
    SUCCESSOR_QUEUED = "successor_queued"
    """Its successor was queued; ``successor``."""
    SUCCESSOR_FAILED = "successor_failed"
    """Its successor could not be queued; ``error``."""
    SUCCESSOR_DROPPED = "successor_dropped"
    """The successor was removed because nothing is left to do; ``successor``."""
    INSTALL_STARTED = "install_started"
    """The job installs the `gym` that it uses; ``repo``, ``ref``."""
    INSTALL_ENDED = "install_ended"
    """It did, or failed; ``status``, and ``commit`` and ``gym`` (the version that runs)."""
    PREPARE_STARTED = "prepare_started"
    """The benchmark's data is being made."""
    SERVICE_STARTED = "service_started"
    """A service was started; ``service``, ``pid``, ``port``."""
    SERVICE_HEALTHY = "service_healthy"
    """A service listens and names the expected model; ``service``."""
    SERVICE_DIED = "service_died"
    """A service ended while it was needed; ``service``, ``status``."""
    REPLICA_LOST = "replica_lost"
    """One of several replicas of a service ended, the others go on; ``service``, ``replica``, ``left``."""
    DRIVER_STARTED = "driver_started"
    """The driver was started."""
    DRIVER_ENDED = "driver_ended"
    """The driver ended; ``status``."""
    STOP_ASKED = "stop_asked"
    """The job was asked to stop starting work; ``asked`` (by whom)."""
    CANCEL_ASKED = "cancel_asked"
    """A user asked for the end of everything that is queued or runs; ``by``, ``why``."""
    RESUBMITTED = "resubmitted"
    """A user queued the benchmark again in place; ``by``, ``reason``, ``max_retries``,
    ``max_walltime`` (s)."""
    NOTICE_SENT = "notice_sent"
    """A notice was sent; ``notice`` (of what), ``by`` (command or webhook)."""
    NOTICE_FAILED = "notice_failed"
    """A notice could not be sent; ``notice``, ``by``, ``error``."""
    JOB_ENDED = "job_ended"
    """A job ended; ``outcome``, ``status``, ``asked``."""


def record(
    journal: Journal, name: ChainEvent | str, *, clock: SecondsClock | None = None, **fields: object
) -> dict[str, object]:
    """Append one event with its time ``at`` (UTC) and return it.

    A field that is `None` is left out. Raises `ValueError` for a name that is not an `ChainEvent`.
    """
    event: dict[str, object] = {
        "at": utc_text((clock or SystemClock()).seconds()),
        "event": ChainEvent(name).value,
    }
    event |= {key: value for key, value in fields.items() if value is not None}
    journal.append(event)
    return event
