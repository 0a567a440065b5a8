"""The state of one benchmark from everything that is known about it. Pure.

It follows the last run that *started*. An executor that does not answer changes nothing, and a successor that
the scheduler cancelled is not the end of a finished run.
"""

from __future__ import annotations

from nemo_gym.chain.endings import NOTHING_FOLLOWS, BenchmarkState, EndCause, Ending, ended
from nemo_gym.chain.evidence import Evidence, Link
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.orchestration.status.waiting_job import WaitingJob, foremost
from nemo_runs.durations import duration_in_words
from nemo_slurm.refusals import Whose, read_refusal

BEATING = 180.0
"""Seconds within which a collector's word proves that it runs, whatever the scheduler does not say."""
SETTLES = 180.0
"""Seconds that a job may need until the scheduler shows it."""


def state_and_job(known: Evidence) -> tuple[Ending, str | None]:
    """State and reason, and the job that they are about."""
    last = known.last
    if last is not None and _runs(known, last.job_id):
        return Ending(BenchmarkState.RUNNING, _asked_to_end(known) or _waits(known, last)), last.job_id
    running = [job for job in known.waiting if _state(known, job) is JobState.RUNNING]
    if running:
        return Ending(BenchmarkState.RUNNING, "its job begins"), running[0]
    waiting = foremost(known)
    if last is None:
        return (
            _before_any_start(known) if waiting is None else (_queued(known, waiting, None), waiting.job_id)
        )
    finished = ended(known, last)
    if finished.state is BenchmarkState.SUCCEEDED and not _queued_again(known):
        return finished, last.job_id
    if waiting is not None:
        return _queued(known, waiting, finished), waiting.job_id
    return _without_successor(known, finished), last.job_id


def _not_queued(known: Evidence) -> Ending:
    error = next((again.error for again in reversed(known.resubmissions) if again.error), known.submit_error)
    reason = f"could not be queued: {error or 'the executor gave no reason'}"
    yours = read_refusal(error or "").whose is Whose.CONFIG
    return Ending(BenchmarkState.FAILED, reason, EndCause.CONFIGURATION if yours else EndCause.INFRASTRUCTURE)


def _runs(known: Evidence, job_id: str) -> bool:
    """Whether the last started run is seen at work, or shows itself that it is."""
    last, seen = known.last, known.seen.get(job_id)
    state = _state(known, job_id)
    if state is JobState.RUNNING:
        return bool(seen and seen.fresh) or last is None or not last.ended
    if last is None or last.ended or (state is not None and state.settled):
        return False
    # nobody says that it ended: not the scheduler, not the job
    return bool(known.silent) or _beats(known)


def _beats(known: Evidence) -> bool:
    progress = known.progress
    return (
        progress is not None
        and progress.at_work
        and progress.updated_at is not None
        and _is_recent(known, progress.updated_at, BEATING)
    )


def _is_recent(known: Evidence, at: float, within: float) -> bool:
    """Whether it was at most so many seconds ago; what a date that was set back puts far ahead was not."""
    return abs(known.now - at) <= within


def _state(known: Evidence, job_id: str) -> JobState | None:
    seen = known.seen.get(job_id)
    return seen.observation.state if seen is not None else None


def _asked_to_end(known: Evidence) -> str:
    if known.cancelled:
        return f"it is being cancelled ({known.cancelled})"
    if known.progress is not None and known.progress.state == "draining" and _beats(known):
        return "it finishes what it has begun and starts nothing new"
    return ""


def _waits(known: Evidence, last: Link) -> str:
    if last.waits_for_room is None:
        return ""
    waited = duration_in_words(known.now - last.waits_for_room)
    return f"its disk is full, or a quota is used up; it waits for disk space, for {waited} so far"


def _queued(known: Evidence, waiting: WaitingJob, finished: Ending | None) -> Ending:
    """That a job waits, and what for."""
    reason = waiting.reason.text
    if finished is not None and known.last is not None and known.last.job_id != waiting.job_id:
        before = finished.reason.removesuffix(NOTHING_FOLLOWS) or "the job before has ended"
        after = f"next after job {known.last.job_id} ({before})"
        reason = f"{after}: {reason}" if reason else after
    return Ending(BenchmarkState.QUEUED, reason)


def _queued_again(known: Evidence) -> bool:
    """Whether a job waits that a person asked for, and not merely the successor of a finished one."""
    return any(_state(known, again.job_id) is JobState.QUEUED for again in known.resubmissions)


def _without_successor(known: Evidence, finished: Ending) -> Ending:
    """A chain whose last run is over and of which nothing is seen in the queue."""
    last = known.last
    successor = last.queued if last is not None else ""
    state = _state(known, successor) if successor else None
    if finished.state is BenchmarkState.FAILED and state is not None and state.ended_badly:
        return _lost_successor(known, finished, successor)
    unseen = successor and state in (None, JobState.UNKNOWN)
    if unseen and finished.state is BenchmarkState.FAILED and not known.cancelled:
        if known.silent or _is_recent(known, ended_at(known), SETTLES):
            return Ending(BenchmarkState.QUEUED, f"its successor {successor} is not seen yet")
        reason = f"{finished.reason}; its successor {successor} was never seen again"
        return Ending(finished.state, reason, finished.cause, finished.look_at)
    return finished


def _lost_successor(known: Evidence, finished: Ending, successor: str) -> Ending:
    """A chain whose last run left work, and whose successor ended before it had begun.

    It is cancelled only where its owner ended it: an administrator, a deadline and Slurm itself are not them.
    """
    seen = known.seen[successor].observation
    before = finished.reason.removesuffix(NOTHING_FOLLOWS)
    if seen.state is not JobState.CANCELLED:
        reason = f"{before}; its successor {successor} ended before it started ({seen.reason or seen.word})"
        return Ending(BenchmarkState.FAILED, reason, finished.cause, finished.look_at)
    by = f" by {seen.stranger}" if seen.stranger else ""
    reason = f"{before}; its successor {successor} was cancelled{by} before it started"
    if seen.stranger:  # the chain had gone on if nobody had ended it: whatever ended the last run
        return Ending(BenchmarkState.FAILED, reason, EndCause.INFRASTRUCTURE, finished.look_at)
    if finished.cause is not EndCause.INFRASTRUCTURE:
        return Ending(BenchmarkState.FAILED, reason, finished.cause, finished.look_at)
    return Ending(BenchmarkState.CANCELLED, reason, EndCause.PERSON)


def ended_at(known: Evidence) -> float:
    """When anybody last heard of the last run: UTC seconds, 0 when never."""
    last = known.last
    times = [] if last is None else [last.started, last.exit.get("ended_at")]
    if last is not None and (seen := known.seen.get(last.job_id)):
        times.append(seen.observation.ended_at)
    if known.progress is not None:
        times.append(known.progress.updated_at)
    return max((float(time) for time in times if isinstance(time, int | float)), default=0.0)


def _before_any_start(known: Evidence) -> tuple[Ending, str | None]:
    if not known.job_ids:
        return _not_queued(known), None
    job_id = known.waiting[-1] if known.waiting else known.job_ids[-1]
    seen = known.seen.get(job_id)
    if known.silent and (seen is None or not seen.observation.state.final):
        return Ending(BenchmarkState.QUEUED, "no sign of a start yet"), job_id
    if seen is None or seen.observation.state is JobState.UNKNOWN:
        reason = seen.observation.reason if seen is not None else f"nobody knows job {job_id}"
        return Ending(BenchmarkState.UNKNOWN, reason), job_id
    return _ended_unstarted(known, job_id, seen.observation), job_id


def _ended_unstarted(known: Evidence, job_id: str, observation: JobObservation) -> Ending:
    """The end of the only job that is known of, which left no trace of a start that can be read."""
    if known.unread:
        said = observation.word or observation.state.value
        before = f"job {job_id} had ended ({said}) when it was seen last"
        return Ending(BenchmarkState.UNKNOWN, f"{before}, and what came after it cannot be read")
    if observation.state is JobState.SUCCEEDED:
        reason = f"job {job_id} has ended with exit status 0, but nothing proves that any rollout is recorded"
        return Ending(BenchmarkState.FAILED, reason, EndCause.INFRASTRUCTURE, "job")
    if observation.state is JobState.CANCELLED:
        by = known.cancelled or observation.reason
        cause = EndCause.INFRASTRUCTURE if observation.stranger and not known.cancelled else EndCause.PERSON
        return Ending(BenchmarkState.CANCELLED, f"cancelled before it had started: {by}", cause)
    reason = f"it ended before its script had begun: {observation.reason}"
    return Ending(BenchmarkState.FAILED, reason, EndCause.INFRASTRUCTURE, "job")
