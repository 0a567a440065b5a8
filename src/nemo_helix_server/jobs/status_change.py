"""One change of a status, as its author wants it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.model import Json, Step
from nemo_helix_server.jobs.states import StatusEvent, StatusReason


@dataclass(frozen=True, slots=True)
class StatusChange:
    """What happened to a step, who says so and why, and what the step has to be for it to count."""

    event: StatusEvent
    who: str
    why: str
    expected: HelixJobStatus | Collection[HelixJobStatus] | None = None
    """The status, or one of those, that the step has to be in; None: any from which the event leads on."""
    version: int | None = None
    """The version of the step that the author had seen; None: it does not matter."""
    reason: StatusReason | None = None
    """Why, where the event alone does not say it."""
    details: Mapping[str, Any] | None = None
    """Merged into the step's status details key by key; a value of None removes its key."""
    error: Json | None = None
    """The error details of step and attempt from now on; None keeps those that are there."""
    task: str | None = None
    """The name of the new task of a step that is accepted."""
    task_details: Json | None = None
    """Merged into the details of the step's newest task, and of nothing else."""

    def expects(self, step: Step) -> bool:
        """Whether the step is as the author expects it."""
        if self.version is not None and self.version != step.version:
            return False
        if self.expected is None:
            return True
        wanted = {self.expected} if isinstance(self.expected, HelixJobStatus) else self.expected
        return step.status in wanted
