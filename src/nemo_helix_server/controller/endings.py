"""What the end of a run means for its step."""

from __future__ import annotations

from dataclasses import replace

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller import continuation
from nemo_helix_server.controller.decisions import ControllerDeadlines, Move, StepFacts
from nemo_helix_server.executors.base import RunObservation, RunState
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_trainer.contract import EXIT_PAUSED


def ended(facts: StepFacts, seen: RunObservation, now: float, limits: ControllerDeadlines) -> Move:
    """What it means that a run is over which nobody asked to pause or to stop (any more)."""
    if seen.state is RunState.EXITED and seen.exit_status == 0:
        return Move(StatusEvent.FINISHED, "its command exited with status 0")
    if facts.done and _from_outside(facts, seen):
        return Move(StatusEvent.FINISHED, f"its work was completed before it ended: {_what(facts, seen)}")
    if facts.pausable and seen.exit_status == EXIT_PAUSED and _was_withdrawn(facts, seen):
        why = "it acted on a pause that had been withdrawn"
        return Move(StatusEvent.INTERRUPTED, why, StatusReason.INTERRUPTED)
    cause = _lost_place(facts, seen) if facts.pausable else None
    return interrupted(facts, cause, limits) if cause else _failure(facts, seen, now)


def _was_withdrawn(facts: StepFacts, seen: RunObservation) -> bool:
    """Whether status 75 answers a pause that nobody wants any more."""
    return facts.sent_seq is not None and not facts.leaves_because and not _by_the_place(facts, seen)


def _lost_place(facts: StepFacts, seen: RunObservation) -> str | None:
    """Why a run that can go on from a checkpoint ended without a fault of its own: a clause; else `None`."""
    if _by_the_place(facts, seen):
        return seen.interrupted
    if seen.exit_status == EXIT_PAUSED and facts.allocation.saved and not seen.timed_out:
        return facts.leaves_because or "it saved a checkpoint and left by itself"
    if _was_hung(facts, seen) and facts.goes_on_from is not None:
        return f"it gave no sign of life for {facts.staleness:g} seconds"
    return None


def interrupted(facts: StepFacts, why: str, limits: ControllerDeadlines) -> Move:
    """A start that ended because its place was taken away: another one follows, as far as the budget goes."""
    history = facts.history.after(facts.allocation)
    over = continuation.spent(history, limits.continuation)
    if over is not None:
        reason, said = over
        sentence = f"the step {facts.name} {said}; the last time {why}; {_again(facts)}"
        return Move(StatusEvent.FAILED, sentence, reason, failed=True, history=history)
    return Move(
        StatusEvent.INTERRUPTED,
        why,
        StatusReason.INTERRUPTED,
        history=history,
        wait=continuation.wait_before_next(history, limits.continuation),
        goes_on=continuation.waits_for_a_node(history, why, facts.goes_on_from),
    )


def paused(
    facts: StepFacts, seen: RunObservation, now: float, limits: ControllerDeadlines, *, late: bool
) -> Move:
    """What it means that a run is over which was asked to pause."""
    good = _paused_or_finished(facts, seen)
    if good is not None:
        return good
    if _place_lost(facts, seen):
        return _cut_off(facts, seen, now, limits)
    if seen.exit_status == EXIT_PAUSED:
        why = (
            f"the step {facts.name} exited with status 75 without a checkpoint that proves the pause: "
            f"{facts.proof}; {_again(facts)}"
        )
        return Move(StatusEvent.FAILED, why, StatusReason.CHECKPOINT_NOT_VERIFIED, failed=True)
    if late and (seen.stopped or seen.state is RunState.LOST):
        why = (
            f"the step {facts.name} did not save a checkpoint and exit within {facts.pause_deadline:g} "
            f"seconds of the pause and was killed; {_again(facts)}"
        )
        return Move(StatusEvent.PAUSE_DEADLINE_MISSED, why, StatusReason.PAUSE_DEADLINE_MISSED, failed=True)
    return _failure(facts, seen, now)


def _paused_or_finished(facts: StepFacts, seen: RunObservation) -> Move | None:
    """The good ends of a run that was asked to pause; None for any other."""
    if seen.never_started:
        why = "it had not started, so there was nothing to save"
        return Move(StatusEvent.CHECKPOINT_VERIFIED, why, facts.pause_reason)
    if seen.state is RunState.EXITED and seen.exit_status == 0:
        return Move(StatusEvent.FINISHED, "it completed while a pause was in progress")
    if seen.exit_status == EXIT_PAUSED and facts.proof is None:
        why = "it saved a checkpoint of all that it had done and exited with status 75"
        history = facts.history.after_pause(facts.allocation)
        return Move(StatusEvent.CHECKPOINT_VERIFIED, why, facts.pause_reason, history=history)
    if facts.done:
        return Move(
            StatusEvent.FINISHED, f"its work was completed before it acted on a pause: {_what(facts, seen)}"
        )
    return None


def is_stale(facts: StepFacts, now: float) -> bool:
    """Whether a running step has been silent for too long."""
    return 0 < facts.staleness < now - (facts.last_sign_at if facts.last_sign_at is not None else now)


def _was_hung(facts: StepFacts, seen: RunObservation) -> bool:
    """Whether a step was ended because it was silent: an active one is stopped for nothing else.

    What its processes wrote of where they are, when they were about to be ended, does not count as a sign.
    """
    silent = facts.status is Status.ACTIVE and facts.staleness > 0
    return facts.pausable and silent and seen.stopped and seen.asked


def _cut_off(facts: StepFacts, seen: RunObservation, now: float, limits: ControllerDeadlines) -> Move:
    """A pause whose workload lost its place: it holds at the newest checkpoint, if there is one."""
    at = facts.goes_on_from
    if at is None:
        move = ended(facts, seen, now, limits)
        why = f"the pause is withdrawn, since there is no checkpoint to pause at; {move.why}"
        goes_on = f"the pause is withdrawn: {move.goes_on}" if move.goes_on else None
        return replace(move, why=why, goes_on=goes_on)
    first, last = at + 1, facts.last_step
    repeats = f"steps {first} to {last} are" if last > first else f"step {last} is"
    cost = f"{repeats} trained again" if last > at else "no step is trained again"
    why = (
        f"{_what(facts, seen)} before the pause was through; the job is paused at the checkpoint of step "
        f"{at}, and {cost} when it is resumed"
    )
    history = facts.history.after_pause(facts.allocation)
    return Move(StatusEvent.CHECKPOINT_VERIFIED, why, facts.pause_reason, history=history)


def _again(facts: StepFacts) -> str:
    """What a rerun would do, as the end of a sentence."""
    if facts.goes_on_from is None:
        return "there is no whole checkpoint, so a rerun begins at the first step"
    return f"rerun the job to go on from its checkpoint of step {facts.goes_on_from}"


def _by_the_place(facts: StepFacts, seen: RunObservation) -> bool:
    """Whether the run ended because its place was taken away, with it or shortly before.

    A workload that was signalled that its time is nearly over saves a checkpoint and exits with status 75.
    """
    if not seen.interrupted or seen.out_of_memory:
        return False
    if seen.state is RunState.LOST or seen.stopped or seen.timed_out or seen.signal != 0:
        return True
    return seen.exit_status == EXIT_PAUSED and facts.goes_on_from is not None


def _place_lost(facts: StepFacts, seen: RunObservation) -> bool:
    """Whether the place to run was taken away: by its machine, a time limit, or somebody who is not us."""
    return _by_the_place(facts, seen) or seen.timed_out or (seen.stopped and not seen.asked)


def _from_outside(facts: StepFacts, seen: RunObservation) -> bool:
    """Whether the run did not end by itself."""
    return seen.state is RunState.LOST or seen.stopped or _place_lost(facts, seen)


def _what(facts: StepFacts, seen: RunObservation) -> str:
    if _by_the_place(facts, seen):
        return seen.interrupted
    if seen.timed_out:
        return "its time limit was reached"
    return f"it was ended from outside ({_how(seen)})" if seen.stopped else f"it {_how(seen)}"


def _how(seen: RunObservation) -> str:
    """How a run ended: a clause whose subject is the run. An executor need not give its reason."""
    if seen.reason:
        return seen.reason
    if seen.exit_status is not None:
        return f"exited with status {seen.exit_status}"
    return "ended, and how is not on record"


def _failure(facts: StepFacts, seen: RunObservation, now: float) -> Move:
    if seen.disk_full and not seen.stopped:
        why = f"the step {facts.name} {_how(seen)}, and the disk is full"
        return Move(StatusEvent.FAILED, why, StatusReason.DISK_FULL, failed=True)
    if seen.state is RunState.LOST:
        why = f"the step {facts.name} was lost: {seen.reason or 'how it ended is not on record'}"
        return Move(StatusEvent.FAILED, why, StatusReason.LOST, failed=True)
    if _was_hung(facts, seen) or (seen.stopped and seen.asked and is_stale(facts, now)):
        why = f"the step {facts.name} gave no sign of life for {facts.staleness:g} seconds"
        return Move(StatusEvent.FAILED, why, StatusReason.STALE, failed=True)
    reason = StatusReason.WORKLOAD_FAILED
    if seen.timed_out:
        reason = StatusReason.TIME_LIMIT
    elif seen.out_of_memory:
        reason = StatusReason.OUT_OF_MEMORY
    return Move(StatusEvent.FAILED, f"the step {facts.name} {_how(seen)}", reason, failed=True)
