"""How a collector's run ends: from counts and how it stopped to an exit status and a sentence. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_gym import errors
from nemo_gym.rollouts.collect.drain import StopReason
from nemo_runs.counts import counted, every

_WHY: dict[StopReason | None, str] = {
    StopReason.ENDPOINT: "the endpoint kept failing",
    StopReason.REFUSED: "the endpoint refused every request with the same client error",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """Rollouts of one output, by what is known about them."""

    expected: int
    recorded: int
    """With a result row, those of earlier runs included."""
    new: int
    """Result rows that this run added."""
    exhausted: int
    """Without a result, and never tried again: attempts used up, or a failure that is final."""
    final: int = 0
    """Those of them whose failure is final."""
    ungraded: int = 0
    """Without a result, but with a stored answer on which the verifier failed as often as one run allows."""
    answered: int = 0
    """Answers of the model in this run, graded or not."""
    waiting: int = 0
    """Stored answers that wait for their grade."""
    judge_failures: int = 0
    """Gradings of this run that failed since a judge model gave no answer."""
    decided: str = ""
    """What was decided before all was asked: nothing further is needed."""

    @property
    def left(self) -> int:
        """Without a result, and still worth a try."""
        return max(0, self.expected - self.recorded - self.exhausted - self.ungraded)


@dataclass(frozen=True, slots=True)
class CollectionEnd:
    """The final state of a run."""

    status: int
    """Exit status: 0, 1, 75, 76 or 130."""
    state: str
    """``complete``, ``incomplete``, ``exhausted``, ``drained``, ``interrupted`` or ``failed``."""
    sentence: str


def decide_end(
    counts: Counts,
    stop: StopReason | None,
    *,
    max_attempts: int,
    asked_by: str = "",
    require_complete: bool = True,
) -> CollectionEnd:
    """Decide in this order: complete or decided, stopped by somebody, exhausted, incomplete with or without
    progress.

    ``max_attempts`` is the setting ``max_rollout_attempts``.

    ``require_complete=False`` turns an incomplete end into 0, but not one that somebody asked for, and not
    one without a single result.
    """
    have = f"{counts.recorded:,} of {counted(counts.expected, 'rollout has', 'rollouts have')} a result"
    if counts.recorded >= counts.expected:
        return CollectionEnd(
            errors.EXIT_DONE,
            "complete",
            f"complete: {every(counts.expected, 'rollout has', 'rollouts have')} a result.",
        )
    if counts.decided:
        return CollectionEnd(errors.EXIT_DONE, "complete", f"{counts.decided}; {have}.")
    if stop is StopReason.INTERRUPT:
        return CollectionEnd(
            errors.EXIT_INTERRUPTED, "interrupted", f"interrupted: {have}; --resume goes on from there."
        )
    if stop in {StopReason.SIGNAL, StopReason.FILE, StopReason.BUDGET}:
        by = f" ({stop}{f': {asked_by}' if asked_by else ''})"
        return CollectionEnd(
            errors.EXIT_INCOMPLETE, "drained", f"drained{by}: {have}; --resume goes on from there."
        )
    end = _incomplete(counts, stop, have, max_attempts)
    if require_complete or not counts.recorded:
        return end
    return CollectionEnd(
        errors.EXIT_DONE, end.state, f"{end.sentence} That is accepted: require_complete is false."
    )


def _incomplete(counts: Counts, stop: StopReason | None, have: str, max_attempts: int) -> CollectionEnd:
    if counts.left == 0:
        return CollectionEnd(errors.EXIT_EXHAUSTED, "exhausted", _exhausted(counts, have, max_attempts))
    why = _WHY.get(stop, f"{counts.left:,} failed")
    remedy = "--resume tries the others again"
    if counts.judge_failures and counts.waiting and stop not in _WHY:
        why = "the judge kept failing"
        stored = counted(counts.waiting, "answer is", "answers are")
        have += f", {stored} stored and not graded"
        remedy = "--resume grades them without asking the model again"
    if counts.new or (counts.answered and counts.waiting):
        return CollectionEnd(errors.EXIT_INCOMPLETE, "incomplete", f"incomplete ({why}): {have}; {remedy}.")
    return CollectionEnd(
        errors.EXIT_ERROR, "failed", f"not one new result ({why}): {have}; {remedy} once the cause is gone."
    )


def _exhausted(counts: Counts, have: str, max_attempts: int) -> str:
    said = [f"exhausted: {have}"]
    spent = counts.exhausted - counts.final
    if spent:
        said.append(f"{spent:,} failed as often as max_rollout_attempts ({max_attempts}) allows")
    if counts.final:
        said.append(f"{counts.final:,} failed for good")
    if counts.ungraded:
        said.append(f"{counts.ungraded:,} have an answer, but grading it failed")
    remedies = ["the failures file says why"]
    if spent:
        remedies.append("--resume with a higher max_rollout_attempts tries these again")
    if counts.ungraded:
        remedies.append(
            "once the verifier is fixed, --resume or `gym eval reverify` grades the kept answers "
            "without a request"
        )
    return f"{', '.join(said)}; {'; '.join(remedies)}."


def stopped_before_start(stop: StopReason | None, asked_by: str = "") -> CollectionEnd:
    """The end of a run that was asked to stop before its first request."""
    if stop is StopReason.INTERRUPT:
        return CollectionEnd(errors.EXIT_INTERRUPTED, "interrupted", "interrupted before the first request.")
    by = f" ({stop or 'signal'}{f': {asked_by}' if asked_by else ''})"
    return CollectionEnd(errors.EXIT_INCOMPLETE, "drained", f"drained{by} before the first request.")
