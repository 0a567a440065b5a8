"""What the end of a run means for its step."""

from __future__ import annotations

from nemo_helix_server.controller.decisions import Move, StepFacts
from nemo_helix_server.executors.base import RunObservation, RunState
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_trainer.contract import EXIT_PAUSED


def ended(facts: StepFacts, seen: RunObservation, now: float) -> Move:
    """What it means that a run is over which nobody asked to pause or to stop (any more)."""
    if seen.state is RunState.EXITED and seen.exit_status == 0:
        return Move(StatusEvent.FINISHED, "its command exited with status 0")
    if facts.done and _from_outside(seen):
        return Move(StatusEvent.FINISHED, f"its work was completed before it ended: {_what(seen)}")
    if facts.pausable and _by_the_machine(seen):
        return Move(
            StatusEvent.INTERRUPTED, "the machine was restarted while it ran", StatusReason.INTERRUPTED
        )
    if facts.pausable and facts.sent_seq is not None and seen.exit_status == EXIT_PAUSED:
        why = "it acted on a pause that had been withdrawn"
        return Move(StatusEvent.INTERRUPTED, why, StatusReason.INTERRUPTED)
    return _failure(facts, seen, now)


def paused(facts: StepFacts, seen: RunObservation, now: float, *, late: bool) -> Move:
    """What it means that a run is over which was asked to pause."""
    good = _paused_or_finished(facts, seen)
    if good is not None:
        return good
    if _place_lost(seen):
        return _cut_off(facts, seen, now)
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
        return Move(
            StatusEvent.CHECKPOINT_VERIFIED,
            "it had not started, so there was nothing to save",
            facts.pause_reason,
        )
    if seen.state is RunState.EXITED and seen.exit_status == 0:
        return Move(StatusEvent.FINISHED, "it completed while a pause was in progress")
    if seen.exit_status == EXIT_PAUSED and facts.proof is None:
        why = "it saved a checkpoint of all that it had done and exited with status 75"
        return Move(StatusEvent.CHECKPOINT_VERIFIED, why, facts.pause_reason)
    if facts.done:
        return Move(StatusEvent.FINISHED, f"its work was completed before it acted on a pause: {_what(seen)}")
    return None


def is_stale(facts: StepFacts, now: float) -> bool:
    """Whether a running step has been silent for too long."""
    return 0 < facts.staleness < now - (facts.last_sign_at if facts.last_sign_at is not None else now)


def _cut_off(facts: StepFacts, seen: RunObservation, now: float) -> Move:
    """A pause whose workload lost its place: it holds at the newest checkpoint, if there is one."""
    at = facts.goes_on_from
    if at is None:
        move = ended(facts, seen, now)
        why = f"the pause is withdrawn, since there is no checkpoint to pause at; {move.why}"
        return Move(move.event, why, move.reason, move.failed)
    first, last = at + 1, facts.last_step
    repeats = f"steps {first} to {last} are" if last > first else f"step {last} is"
    why = (
        f"{_what(seen)} before the pause was through; the job is paused at the checkpoint of step {at}, and "
        f"{f'{repeats} trained again' if last > at else 'no step is trained again'} when it is resumed"
    )
    return Move(StatusEvent.CHECKPOINT_VERIFIED, why, facts.pause_reason)


def _again(facts: StepFacts) -> str:
    """What a rerun would do, as the end of a sentence."""
    if facts.goes_on_from is None:
        return "there is no whole checkpoint, so a rerun begins at the first step"
    return f"rerun the job to go on from its checkpoint of step {facts.goes_on_from}"


def _by_the_machine(seen: RunObservation) -> bool:
    """Whether the run ended because the machine went down, with it or shortly before it."""
    return seen.rebooted and (seen.state is RunState.LOST or seen.stopped or seen.signal != 0)


def _place_lost(seen: RunObservation) -> bool:
    """Whether the place to run was taken away: by a restart, a time limit, or somebody who is not us."""
    return _by_the_machine(seen) or seen.timed_out or (seen.stopped and not seen.asked)


def _from_outside(seen: RunObservation) -> bool:
    """Whether the run did not end by itself."""
    return seen.state is RunState.LOST or seen.stopped or _place_lost(seen)


def _what(seen: RunObservation) -> str:
    if _by_the_machine(seen):
        return "the machine was restarted"
    if seen.timed_out:
        return "its time limit was reached"
    return f"it was ended from outside ({seen.reason})" if seen.stopped else f"it {seen.reason}"


def _failure(facts: StepFacts, seen: RunObservation, now: float) -> Move:
    if seen.state is RunState.LOST:
        why = f"the step {facts.name} was lost: {seen.reason}"
        return Move(StatusEvent.FAILED, why, StatusReason.LOST, failed=True)
    if seen.stopped and seen.asked and is_stale(facts, now):
        why = f"the step {facts.name} gave no sign of life for {facts.staleness:g} seconds"
        return Move(StatusEvent.FAILED, why, StatusReason.STALE, failed=True)
    reason = StatusReason.WORKLOAD_FAILED
    if seen.timed_out:
        reason = StatusReason.TIME_LIMIT
    elif seen.out_of_memory:
        reason = StatusReason.OUT_OF_MEMORY
    return Move(StatusEvent.FAILED, f"the step {facts.name} {seen.reason}", reason, failed=True)
