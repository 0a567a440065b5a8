"""What is to be published to a tracker about a job now: which training steps, and which state.

A tracker cannot take a step back. So it gets only steps that will not be trained again: those up to the
newest checkpoint, and the rest once nothing can continue the job from that checkpoint any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs.model import CheckpointRow, WritersStart


class TrackerState(StrEnum):
    """What a tracker says of a run."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerFacts:
    """A job and its tracker, as they are now."""

    status: Status
    final: bool = False
    """Whether the job's storage is gone, so that it cannot be run again."""
    newest: int = 0
    """The last training step that has a point; 0: none has."""
    covered: int = 0
    """See `covered`."""
    published: int = 0
    """The last step that the tracker has."""
    said: TrackerState | None = None
    """The last state that was published to it; None: it has no run yet."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be published."""

    to: int
    """Steps up to this one; as many as are published already: none."""
    state: TrackerState | None
    """The state to publish; None: it is published already, or nothing is to be published yet."""
    settled: bool
    """Whether nothing more will come until the job's status changes."""


_STATES = {
    **{status: TrackerState.RUNNING for status in Status if status.reports_progress},
    Status.PAUSED: TrackerState.PAUSED,
    Status.COMPLETED: TrackerState.FINISHED,
    Status.ERROR: TrackerState.FAILED,
    Status.CANCELLED: TrackerState.KILLED,
}
"""Of a job that only waits, a tracker keeps the last published state."""


def plan(facts: TrackerFacts) -> Plan:
    """What to publish now."""
    settled = facts.status.is_settled
    if facts.newest == 0 and facts.said is None:
        return Plan(facts.published, None, settled)
    state = _STATES.get(facts.status)
    return Plan(max(facts.published, _limit(facts)), state if state != facts.said else None, settled)


def before_evaluation(covered: int, details: Mapping[str, Any]) -> int:
    """The same, but not beyond a step that is being evaluated: its score is still to come."""
    said = details.get("evaluation")
    running = said.get("running") if isinstance(said, Mapping) else None
    return min(covered, running - 1) if isinstance(running, int) else covered


def covered(
    checkpoints: Iterable[CheckpointRow],
    start: WritersStart,
    *,
    attempt_id: str,
    asked_for: CheckpointRow | None,
) -> int:
    """The last training step that is not trained again, by the checkpoints of the training; 0: none is known.

    ``start`` is where its newest writer went on. What an outdated one had saved beyond that covers nothing:
    the newest trains those steps again. ``asked_for`` is the checkpoint that the attempt was asked to start
    from: until it has its own, it goes on from there. No start goes on by itself from a copy elsewhere.
    """
    usable = [found for found in checkpoints if found.present and found.problem is None]
    if asked_for is not None and not any(found.attempt_id == attempt_id for found in usable):
        return asked_for.step
    return max(
        (found.step for found in usable if found.step <= start.step or found.generation >= start.generation),
        default=0,
    )


def _limit(facts: TrackerFacts) -> int:
    """The last step that will not be trained again, as far as is known."""
    if facts.status.is_final or (facts.status is Status.ERROR and facts.final):
        return facts.newest
    if not facts.status.is_settled and facts.newest <= facts.covered:
        # the newest step may get more values yet, such as those of a validation
        return min(facts.covered, facts.newest) - 1
    return min(facts.covered, facts.newest)
