"""What to do about a step, given what is wanted, what is seen, and the time: pure, and all of it is here.

Wanted is what the store says (a user writes it there), seen is what the executor observes. A decision is a
value; `nemo_helix_server.controller.effects` carries it out. What the end of a run means is in `endings`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller.decisions import (
    Admit,
    ControllerDeadlines,
    Decision,
    Kill,
    Move,
    NoteQueue,
    Prepare,
    RepeatControl,
    RequestControl,
    Start,
    StepFacts,
    Stop,
)
from nemo_helix_server.controller.endings import ended, interrupted, is_stale, paused
from nemo_helix_server.executors.base import RunObservation, RunState
from nemo_helix_server.jobs.states import StatusEvent, StatusReason

__all__ = [
    "KILL_AFTER",
    "Admit",
    "ControllerDeadlines",
    "Decision",
    "Kill",
    "Move",
    "NoteQueue",
    "Prepare",
    "RepeatControl",
    "RequestControl",
    "Start",
    "StepFacts",
    "Stop",
    "decide",
    "next_deadline",
]

KILL_AFTER = 30.0
"""Seconds after the last deadline until a run is ended without its shim."""
_OVER = frozenset({RunState.EXITED, RunState.LOST})
_THERE = frozenset({RunState.QUEUED, RunState.STARTING, RunState.RUNNING})
_IN_A_QUEUE = "it waits in the queue of the scheduler"
_TOO_LATE = (
    "the pause is withdrawn: its work was completed before it acted on it, and the step completes once its "
    "last results are written"
)


def decide(
    facts: StepFacts, seen: RunObservation | None, now: float, limits: ControllerDeadlines
) -> Decision | None:
    """The one thing to do now; `None` = wait. ``seen`` is of the newest start, `None` when there is none."""
    rule = _RULES.get(facts.status)
    return rule(facts, seen or RunObservation(RunState.ABSENT), now, limits) if rule else None


def _creation(facts: StepFacts, _seen: RunObservation, now: float, limits: ControllerDeadlines) -> Decision:
    if now - facts.status_since > limits.creation:
        why = f"the job's directories could not be made within {limits.creation:g} seconds"
        return Move(StatusEvent.CREATION_FAILED, why, StatusReason.CREATION_FAILED, failed=True)
    return Prepare()


def _waiting(_facts: StepFacts, _seen: RunObservation, _now: float, _limits: ControllerDeadlines) -> Decision:
    return Admit()


def _pending(
    facts: StepFacts, seen: RunObservation, now: float, limits: ControllerDeadlines
) -> Decision | None:
    late = 0 < limits.before_active < now - _start_counts_from(facts)
    if seen.state is RunState.QUEUED:
        reason = seen.reason or _IN_A_QUEUE
        return None if reason == facts.queued_reason else NoteQueue(reason)
    if seen.state in _OVER:
        if seen.never_started:
            return _not_started(facts, seen, limits, late=late)
        return ended(facts, seen, now, limits)
    if seen.state is RunState.RUNNING:
        return Move(StatusEvent.STARTED, "its command was seen running")
    if late and seen.state in {RunState.ABSENT, RunState.STARTING}:
        over = now - _start_counts_from(facts) - limits.before_active
        overdue = seen.state is RunState.ABSENT and over > KILL_AFTER
        return _not_started(facts, seen, limits, late=True) if overdue else Stop(0)
    return Start() if seen.state is RunState.ABSENT else None


def _start_counts_from(facts: StepFacts) -> float:
    """What a start may take counts from when it was accepted, here or by the scheduler that let it wait."""
    return facts.status_since if facts.queued_at is None else max(facts.status_since, facts.queued_at)


def _not_started(facts: StepFacts, seen: RunObservation, limits: ControllerDeadlines, *, late: bool) -> Move:
    if seen.interrupted:
        return interrupted(facts, f"its start was given up: {seen.interrupted}", limits)
    if late:
        why = f"the step {facts.name} could not be started within {limits.before_active:g} seconds"
        return Move(StatusEvent.FAILED, why, StatusReason.START_FAILED, failed=True)
    return Move(
        StatusEvent.INTERRUPTED,
        f"its start was given up and is made again: {seen.reason or 'it had not begun'}",
        StatusReason.INTERRUPTED,
    )


def _active(
    facts: StepFacts, seen: RunObservation, now: float, limits: ControllerDeadlines
) -> Decision | None:
    if seen.state in _OVER:
        return ended(facts, seen, now, limits)
    if seen.state is RunState.ABSENT:
        why = f"there is no record that the step {facts.name} was ever started"
        return Move(StatusEvent.FAILED, why, StatusReason.LOST, failed=True)
    if facts.sent_seq is not None and facts.sent_seq < facts.control_seq:
        return RepeatControl(RequestControl.GO_ON)
    return Stop(0, stacks=True) if seen.state in _THERE and is_stale(facts, now) else None


def _pausing(
    facts: StepFacts, seen: RunObservation, now: float, limits: ControllerDeadlines
) -> Decision | None:
    asked_at = facts.pause_requested_at
    late = asked_at is None or now - asked_at > facts.pause_deadline
    if seen.state in _OVER:
        return paused(facts, seen, now, limits, late=late)
    if seen.state is RunState.ABSENT:
        # from here on it can never start, and the next look says so; unless even that cannot be recorded
        if asked_at is not None and now - asked_at <= facts.pause_deadline + KILL_AFTER:
            return Stop(0)
        why = f"there is no record that the step {facts.name} was ever started"
        return Move(StatusEvent.FAILED, why, StatusReason.LOST, failed=True)
    if late and seen.state in _THERE and facts.says_done:
        return Move(StatusEvent.PAUSE_WITHDRAWN, _TOO_LATE)
    if late and seen.state in _THERE:
        overdue = asked_at is not None and now - asked_at > facts.pause_deadline + KILL_AFTER
        return _fall_back(
            facts, f"save and leave within {facts.pause_deadline:g} seconds of the pause", overdue
        )
    return None if late else _request(facts, seen)


def _request(facts: StepFacts, seen: RunObservation) -> Decision | None:
    if seen.state is RunState.QUEUED:
        return Stop(0)  # nothing runs that could save anything
    if (facts.sent_seq or 0) >= facts.control_seq:
        return None
    if facts.pause_space_shortage:
        return Move(StatusEvent.PAUSE_WITHDRAWN, facts.pause_space_shortage)
    return RepeatControl(RequestControl.PAUSE)


def _cancelling(facts: StepFacts, seen: RunObservation, now: float, limits: ControllerDeadlines) -> Decision:
    since = now - facts.status_since
    overdue = since > limits.cancel + KILL_AFTER
    if not facts.started:
        return Move(StatusEvent.STOPPED, "nothing of it had started")
    if seen.state in _OVER:
        killed = _was_killed(seen, since, limits)
        return Move(StatusEvent.STOPPED, f"{killed}nothing of it runs any more")
    if overdue and seen.state is RunState.ABSENT:
        return Move(StatusEvent.STOPPED, "there is no record that it was ever started")
    if overdue and seen.state is RunState.UNKNOWN:
        why = seen.reason or "its executor does not say why"
        return Move(StatusEvent.STOPPED, f"it can no longer be seen: {why}")
    nothing_runs = seen.state in {RunState.ABSENT, RunState.QUEUED}
    if overdue or (since > limits.cancel and not nothing_runs):
        return _fall_back(facts, f"end within {limits.cancel:g} seconds of the cancel", overdue)
    return Stop(0 if nothing_runs else limits.grace)


def _fall_back(facts: StepFacts, request: str, overdue: bool) -> Stop | Kill:
    """End what has not answered a request, which the job's details then say."""
    unanswered = f"the step {facts.name} did not {request}"
    if overdue:
        return Kill(f"{unanswered}, nor did a signal end it, so it is killed together with what watches it")
    return Stop(0, fallback=f"{unanswered}, so its processes are ended by a signal")


def _was_killed(seen: RunObservation, since: float, limits: ControllerDeadlines) -> str:
    """The beginning of a sentence about a cancel that the workload did not follow by itself; else empty."""
    late = since > limits.cancel
    by_signal = seen.signal == signal.SIGKILL and not seen.out_of_memory
    with_its_shim = late and seen.state is RunState.LOST and not seen.never_started and not seen.interrupted
    if not seen.asked or not (by_signal or with_its_shim):
        return ""
    waited = f"{limits.cancel:g} seconds of the cancel" if late else f"{limits.grace:g} seconds of SIGTERM"
    return f"it did not end within {waited} and was killed; "


Rule = Callable[[StepFacts, RunObservation, float, ControllerDeadlines], Decision | None]

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


def next_deadline(facts: StepFacts, limits: ControllerDeadlines) -> float | None:
    """When something is due about a step even if nothing happens, on the clock of the facts."""
    if facts.status is Status.PAUSING and facts.pause_requested_at is not None:
        return facts.pause_requested_at + facts.pause_deadline
    if facts.status is Status.CANCELLING:
        return facts.status_since + limits.cancel
    if facts.status is Status.PENDING and limits.before_active > 0:
        return _start_counts_from(facts) + limits.before_active
    if facts.status is Status.ACTIVE and facts.staleness > 0 and facts.last_sign_at is not None:
        return facts.last_sign_at + facts.staleness
    return None
