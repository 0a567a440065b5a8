"""What to do about a step, given what is wanted, what is seen, and the time: pure, and all of it is here.

Wanted is what the store says (a user writes it there), seen is what the executor observes. A decision is a
value; `nemo_helix_server.controller.effects` carries it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.base import Observation, RunState
from nemo_helix_server.jobs.states import Event, Reason
from nemo_trainer.contract import EXIT_PAUSED

KILL_AFTER = 30.0
"""Seconds after the last deadline until a run is ended without its shim."""
_OVER = frozenset({RunState.EXITED, RunState.LOST})
_THERE = frozenset({RunState.STARTING, RunState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The deadlines, in seconds."""

    before_active: float
    """How long a start may take until the command runs; 0 = as long as it likes."""
    creation: float
    cancel: float
    grace: float
    """What a stopped step gets between SIGTERM and SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What is wanted of a step; times in seconds since the epoch."""

    name: str
    status: Status
    status_since: float
    started: bool = False
    """Whether there is a token: the step was accepted at least once."""
    pause_deadline: float = 0.0
    """0 = it cannot be paused."""
    pause_requested_at: float | None = None
    pause_reason: Reason = Reason.PAUSED_BY_USER
    control_seq: int = 0
    sent_seq: int | None = None
    """Number of the newest request that was given to this start; `None` = none ever was."""
    proof: str | None = None
    """What is missing of a checkpoint that covers the pause; `None` = nothing. Known once it has ended."""
    room_for_pause: str | None = None
    """Why a checkpoint would not fit on the disk; `None` = it would."""
    staleness: float = 0.0
    """Seconds of silence after which a running step counts as stuck; 0 = never."""
    last_sign_at: float | None = None

    @property
    def pausable(self) -> bool:
        """Whether it can go on from checkpoints."""
        return self.pause_deadline > 0


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make the job's directories."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Start it when its turn has come, or say what it waits for."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start what was accepted and has not been started."""


class Ask(StrEnum):
    """What a workload is told."""

    PAUSE = "pause"
    GO_ON = "go_on"


@dataclass(frozen=True, slots=True)
class Tell:
    """Give a request to the workload."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Stop:
    """Begin to end the run."""

    grace: float


@dataclass(frozen=True, slots=True)
class Kill:
    """End the run and its shim at once."""


@dataclass(frozen=True, slots=True)
class Move:
    """Let an event happen to the step."""

    event: Event
    why: str
    reason: Reason | None = None
    failed: bool = False
    """Whether the why is the step's error, to be explained by evidence."""


Decision = Prepare | Admit | Start | Tell | Stop | Kill | Move


def decide(facts: StepFacts, seen: Observation | None, now: float, limits: Limits) -> Decision | None:
    """The one thing to do now; `None` = wait. ``seen`` is of the newest start, `None` when there is none."""
    rule = _RULES.get(facts.status)
    return rule(facts, seen or Observation(RunState.ABSENT), now, limits) if rule else None


def _creation(facts: StepFacts, _seen: Observation, now: float, limits: Limits) -> Decision:
    if now - facts.status_since > limits.creation:
        why = f"the job's directories could not be made within {limits.creation:g} seconds"
        return Move(Event.CREATION_FAILED, why, Reason.CREATION_FAILED, failed=True)
    return Prepare()


def _waiting(_facts: StepFacts, _seen: Observation, _now: float, _limits: Limits) -> Decision:
    return Admit()


def _pending(facts: StepFacts, seen: Observation, now: float, limits: Limits) -> Decision | None:
    late = 0 < limits.before_active < now - facts.status_since
    if seen.state in _OVER:
        return _not_started(facts, seen, limits, late=late) if seen.never_started else _ended(facts, seen)
    if seen.state is RunState.RUNNING:
        return Move(Event.STARTED, "its command was seen running")
    if late and seen.state in {RunState.ABSENT, RunState.STARTING}:
        over = now - facts.status_since - limits.before_active
        hopeless = seen.state is RunState.ABSENT and over > KILL_AFTER
        return _not_started(facts, seen, limits, late=True) if hopeless else Stop(0)
    return Start() if seen.state is RunState.ABSENT else None


def _not_started(facts: StepFacts, seen: Observation, limits: Limits, *, late: bool) -> Move:
    if late:
        why = f"the step {facts.name} could not be started within {limits.before_active:g} seconds"
        return Move(Event.FAILED, why, Reason.START_FAILED, failed=True)
    return Move(
        Event.INTERRUPTED, f"its start was given up and is made again: {seen.reason}", Reason.INTERRUPTED
    )


def _active(facts: StepFacts, seen: Observation, now: float, _limits: Limits) -> Decision | None:
    if seen.state in _OVER:
        return _ended(facts, seen)
    if seen.state is RunState.ABSENT:
        why = f"there is no record that the step {facts.name} was ever started"
        return Move(Event.FAILED, why, Reason.LOST, failed=True)
    if facts.sent_seq is not None and facts.sent_seq < facts.control_seq:
        return Tell(Ask.GO_ON)
    return Stop(0) if seen.state in _THERE and _stale(facts, now) else None


def _stale(facts: StepFacts, at: float) -> bool:
    return 0 < facts.staleness < at - (facts.last_sign_at if facts.last_sign_at is not None else at)


def _ended(facts: StepFacts, seen: Observation) -> Decision:
    """What the end of a run means that nobody asked to pause or to stop (any more)."""
    if seen.state is RunState.EXITED and seen.exit_status == 0:
        return Move(Event.FINISHED, "its command exited with status 0")
    if facts.pausable and _by_the_machine(seen):
        return Move(Event.INTERRUPTED, "the machine was restarted while it ran", Reason.INTERRUPTED)
    if facts.pausable and facts.sent_seq is not None and seen.exit_status == EXIT_PAUSED:
        why = "it acted on a pause that had been withdrawn"
        return Move(Event.INTERRUPTED, why, Reason.INTERRUPTED)
    return _failure(facts, seen)


def _by_the_machine(seen: Observation) -> bool:
    """Whether the run ended because the machine went down, with it or shortly before it."""
    return seen.rebooted and (seen.state is RunState.LOST or seen.stopped or seen.signal != 0)


def _failure(facts: StepFacts, seen: Observation) -> Move:
    if seen.state is RunState.LOST:
        why = f"the step {facts.name} was lost: {seen.reason}"
        return Move(Event.FAILED, why, Reason.LOST, failed=True)
    if seen.stopped and seen.ended_at is not None and _stale(facts, seen.ended_at):
        why = f"the step {facts.name} gave no sign of life for {facts.staleness:g} seconds"
        return Move(Event.FAILED, why, Reason.STALE, failed=True)
    reason = Reason.WORKLOAD_FAILED
    if seen.timed_out:
        reason = Reason.TIME_LIMIT
    elif seen.out_of_memory:
        reason = Reason.OUT_OF_MEMORY
    return Move(Event.FAILED, f"the step {facts.name} {seen.reason}", reason, failed=True)


def _pausing(facts: StepFacts, seen: Observation, now: float, _limits: Limits) -> Decision | None:
    asked_at = facts.pause_requested_at
    late = asked_at is None or now - asked_at > facts.pause_deadline
    if seen.state in _OVER:
        return _paused(facts, seen, late=late)
    if seen.state is RunState.ABSENT:
        # from here on it can never start, and the next look says so; unless even that cannot be recorded
        if asked_at is not None and now - asked_at <= facts.pause_deadline + KILL_AFTER:
            return Stop(0)
        why = f"there is no record that the step {facts.name} was ever started"
        return Move(Event.FAILED, why, Reason.LOST, failed=True)
    if late and seen.state in _THERE:
        hopeless = asked_at is not None and now - asked_at > facts.pause_deadline + KILL_AFTER
        return Kill() if hopeless else Stop(0)
    return None if late else _request(facts)


def _request(facts: StepFacts) -> Decision | None:
    if (facts.sent_seq or 0) >= facts.control_seq:
        return None
    if facts.room_for_pause:
        return Move(Event.PAUSE_WITHDRAWN, facts.room_for_pause)
    return Tell(Ask.PAUSE)


def _paused(facts: StepFacts, seen: Observation, *, late: bool) -> Decision:
    """What the end of a run means that was asked to pause."""
    if seen.never_started:
        return Move(
            Event.CHECKPOINT_VERIFIED, "it had not started, so there was nothing to save", facts.pause_reason
        )
    if seen.state is RunState.EXITED and seen.exit_status == 0:
        return Move(Event.FINISHED, "it completed while a pause was in progress")
    if seen.state is RunState.EXITED and seen.exit_status == EXIT_PAUSED:
        if facts.proof is None:
            why = "it saved a checkpoint of all that it had done and exited with status 75"
            return Move(Event.CHECKPOINT_VERIFIED, why, facts.pause_reason)
        why = (
            f"the step {facts.name} exited with status 75 without a checkpoint that proves the pause: "
            f"{facts.proof}; rerun the job to go on from its newest whole checkpoint"
        )
        return Move(Event.FAILED, why, Reason.CHECKPOINT_NOT_VERIFIED, failed=True)
    if late and (seen.stopped or seen.state is RunState.LOST):
        why = (
            f"the step {facts.name} did not save a checkpoint and exit within {facts.pause_deadline:g} "
            "seconds of the pause and was killed; rerun the job to go on from its newest whole checkpoint"
        )
        return Move(Event.PAUSE_DEADLINE_MISSED, why, Reason.PAUSE_DEADLINE_MISSED, failed=True)
    return _failure(facts, seen)


def _cancelling(facts: StepFacts, seen: Observation, now: float, limits: Limits) -> Decision:
    since = now - facts.status_since
    hopeless = since > limits.cancel + KILL_AFTER
    if not facts.started:
        return Move(Event.STOPPED, "nothing of it had started")
    if seen.state in _OVER:
        return Move(Event.STOPPED, "nothing of it runs any more")
    if seen.state is RunState.ABSENT and hopeless:
        return Move(Event.STOPPED, "there is no record that it was ever started")
    if seen.state is RunState.UNKNOWN and hopeless:
        return Move(Event.STOPPED, f"it can no longer be seen: {seen.reason}")
    if hopeless:
        return Kill()
    return Stop(0 if since > limits.cancel or seen.state is RunState.ABSENT else limits.grace)


Rule = Callable[[StepFacts, Observation, float, Limits], Decision | None]

_RULES: dict[Status, Rule] = {
    Status.CREATION_PENDING: _creation,
    Status.CREATED: _waiting,
    Status.QUEUED: _waiting,
    Status.RESUMING: _waiting,
    Status.PENDING: _pending,
    Status.ACTIVE: _active,
    Status.PAUSING: _pausing,
    Status.CANCELLING: _cancelling,
}


def next_deadline(facts: StepFacts, limits: Limits) -> float | None:
    """When something is due about a step even if nothing happens; seconds since the epoch."""
    if facts.status is Status.PAUSING and facts.pause_requested_at is not None:
        return facts.pause_requested_at + facts.pause_deadline
    if facts.status is Status.CANCELLING:
        return facts.status_since + limits.cancel
    if facts.status is Status.PENDING and limits.before_active > 0:
        return facts.status_since + limits.before_active
    if facts.status is Status.ACTIVE and facts.staleness > 0 and facts.last_sign_at is not None:
        return facts.last_sign_at + facts.staleness
    return None
