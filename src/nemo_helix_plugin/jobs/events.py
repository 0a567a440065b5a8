"""Server-sent events about jobs: kinds, and the body that goes with each.

A stream (``…/jobs/{name}/events`` or ``…/workspaces/{workspace}/events``) sends ``event:`` and JSON ``data:``

* ``job`` - a `HelixJobResponse` without its specs; first when the stream opens, then after every change;
* ``transition`` - a `Transition`, with its ``seq`` as the event's ``id:``: ``Last-Event-ID`` goes on from it;
* ``log`` - a `HelixJobLog`, only where ``?logs=true`` asks for lines.

Comments keep the connection open. A kind that a reader does not know is passed over.
"""

from __future__ import annotations

from typing import Any, Literal

from nemo_helix_plugin.jobs import models
from nemo_helix_plugin.jobs.responses import Transition
from nemo_helix_plugin.jobs.schemas import HelixJobLog, Status

KIND_JOB = "job"
KIND_TRANSITION = "transition"
KIND_LOG = "log"


class JobChange(models.ResponseModel):
    """A job after a change."""

    kind: Literal["job"] = "job"
    id: str
    name: str
    workspace: str
    attempt_id: str | None = None
    source: str | None = None
    status: Status
    reason: str | None = None
    status_details: dict[str, Any] | None = None
    error_details: dict[str, Any] | None = None
    storage_expires_at: models.Moment | None = None
    updated_at: models.Moment | None = None


class JobTransition(Transition):
    """A transition, as an event."""

    kind: Literal["transition"] = "transition"


class JobLogLine(HelixJobLog):
    """A log line, as an event."""

    kind: Literal["log"] = "log"


JobEvent = JobChange | JobTransition | JobLogLine
