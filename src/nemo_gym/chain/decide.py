"""Whether a chain of jobs goes on, decided from how the job before ended; pure.

Witnesses lie in known ways, so they are heard in a fixed order: proof of completeness (identities, never an
exit status), a cancellation (ours or the scheduler's), a drain that our own early signal asked for or
"nothing left to retry", the scheduler's other states, and at last "nobody saw it". ``scancel`` makes a
driver drain as well, so a marker alone never outweighs CANCELLED. ``shell/decide.sh`` decides the same; one
test feeds both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nemo_gym.chain.budget import Budget
from nemo_gym.errors import EXIT_DONE, EXIT_ERROR, EXIT_EXHAUSTED, EXIT_INCOMPLETE
from nemo_runs.counts import counted
from nemo_runs.durations import format_duration
from nemo_slurm.states import Meaning, SlurmState, foreign

LOOKS = 6
"""How often a state that is not visible yet is looked up, ten seconds apart: accounting lags."""


FULL_DISKS = 10
"""How many jobs in a row may end because their disk stayed full."""


class Requester(StrEnum):
    """Who asked a job to stop, as its end marker says."""

    NOBODY = "nobody"
    EARLY = "early"
    """Our own signal ahead of the time limit."""
    CANCEL = "cancel"
    """A cancellation that the job itself knew of."""
    TERM = "term"
    """SIGTERM: a time limit, a preemption or ``scancel``; only the scheduler can tell."""
    PERSON = "person"
    """Somebody wrote into the drain file."""

    @classmethod
    def of(cls, outcome: str, who: str) -> Requester:
        """From the words of an end marker: what became of the job, and who asked it to stop.

        A signal without more is our own early one when the job only drained, anybody's when it was stopped.
        What is no word of ours is a person.
        """
        if who == "signal":
            return cls.EARLY if outcome == "drained" else cls.TERM
        ours = {"cancel": cls.CANCEL, "walltime": cls.EARLY}
        ours |= dict.fromkeys(("", "none", "continued", "service_died"), cls.NOBODY)
        return ours.get(who, cls.PERSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A job script's own last word."""

    complete: bool
    """Every expected identity is recorded exactly once, as the collector counted (or it accepts less)."""
    exit_status: int
    asked: Requester
    hopeless: str | None = None
    """Why no retry can help, for a failure of that kind."""
    full_disks: int = 0
    """So many jobs in a row, this one the last, ended because their disk stayed full."""
    undecided: bool = False
    """Whether those had not decided: all else is about the run before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """What is known about the end of the run before this one."""

    marker: Marker | None
    """`None` when it left none: it was killed, or its node failed."""
    scheduler: SlurmState | None
    """What the scheduler says, `None` when it says nothing (yet)."""
    cancelled_by_us: bool = False
    """Whether the tombstone of `gym job cancel` is there."""
    same_job: bool = False
    """A second run of one job id after a requeue: the scheduler's state is that of the run that asks."""
    owner: int | None = None
    """Number of the user who owns the chain's jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the chain has used so far, the predecessor included."""

    retries: int
    """Retries counted before this decision."""
    walltime: int
    """Seconds, of runs that have ended."""
    links_without_progress: int
    """Runs in a row that recorded nothing new."""
    rows: int = 0
    """Rows that are recorded."""


class ChainAction(StrEnum):
    """What the job does now."""

    GO_ON = "go_on"
    STOP = "stop"
    """End with status 0, whatever became of the chain; nothing is queued."""
    FAIL = "fail"
    """End with status 1; nothing is queued."""


class ChainState(StrEnum):
    """What becomes of the chain."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """The walltime cap was reached, or a person asked for a drain: not a failure."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ChainDecision:
    """What to do, and why, in words for a person."""

    action: ChainAction
    chain: ChainState
    counts_retry: bool
    reason: str

    @property
    def exit_status(self) -> int:
        """Status with which a job that does not go on ends."""
        return EXIT_ERROR if self.action is ChainAction.FAIL else EXIT_DONE


def look_again(predecessor: Predecessor, *, looks: int) -> bool:
    """Whether to ask the scheduler once more after so many looks.

    Nothing is gained when the marker or the tombstone has decided already.
    """
    if looks >= LOOKS or predecessor.same_job or predecessor.cancelled_by_us:
        return False
    if predecessor.marker and predecessor.marker.complete:
        return False
    return predecessor.scheduler is None or predecessor.scheduler.meaning is Meaning.LAG


def decide(predecessor: Predecessor | None, spent: Spent, budget: Budget) -> ChainDecision:
    """Say whether the chain goes on after ``predecessor``; `None` is the first job, of no cancelled chain."""
    if predecessor is None:
        return _go_on("the first job of its chain")
    ended = _final(predecessor) or _last_word(predecessor.marker) or _by_scheduler(predecessor)
    return _within(ended, predecessor, spent, budget)


def _final(predecessor: Predecessor) -> ChainDecision | None:
    """Completeness and cancellation, which nothing outranks."""
    marker, scheduler = predecessor.marker, _scheduler(predecessor)
    if marker and marker.complete:
        return ChainDecision(ChainAction.STOP, ChainState.SUCCEEDED, False, "every rollout is recorded")
    if predecessor.cancelled_by_us or (marker and marker.asked is Requester.CANCEL):
        return ChainDecision(ChainAction.STOP, ChainState.CANCELLED, False, "the chain was cancelled")
    if scheduler and scheduler.meaning is Meaning.CANCELLED:
        who = foreign(scheduler.author, predecessor.owner)
        who = who or ("" if scheduler.author is None else f"user {scheduler.author}")
        by = f" by {who}" if who else ""
        return ChainDecision(
            ChainAction.STOP, ChainState.CANCELLED, False, f"the job before was cancelled{by}"
        )
    return None


def _last_word(marker: Marker | None) -> ChainDecision | None:
    """What the job itself said, where that outranks the scheduler's states other than CANCELLED."""
    if marker is None:
        return None
    if marker.hopeless:
        return _fail(f"no retry can help: {marker.hopeless}")
    if marker.exit_status == EXIT_EXHAUSTED:
        return _fail("rollouts are missing and none of them may be tried again")
    if marker.asked is Requester.PERSON:
        return _stop("a person asked the job before to drain")
    return _last_wait(marker)


def _last_wait(marker: Marker) -> ChainDecision | None:
    """An end that work is left after, by the job's own doing."""
    if marker.full_disks >= FULL_DISKS:
        jobs = f"{marker.full_disks} jobs in a row"
        return _fail(f"the disk stayed full in {jobs}; make room, then resubmit the benchmark")
    if marker.full_disks and not marker.undecided:
        return _go_on("the job before ended because its disk stayed full")
    if marker.exit_status == EXIT_INCOMPLETE and marker.asked is Requester.EARLY:
        return _go_on("the job before drained ahead of its time limit")
    return None


def _by_scheduler(predecessor: Predecessor) -> ChainDecision:
    scheduler = _scheduler(predecessor)
    if predecessor.same_job:
        return _go_on("the scheduler put this job back into its queue")
    if scheduler is None or scheduler.meaning is Meaning.LAG:
        return _go_on("nobody saw how the job before ended")
    if scheduler.meaning is Meaning.COMPLETE:
        unproven = "but nothing proves that every rollout is recorded"
        said = f"the scheduler says COMPLETED of the job before, {unproven}"
        return ChainDecision(ChainAction.STOP, ChainState.FAILED, False, said)
    said = f"the job before ended as {scheduler.name} ({scheduler.reason})"
    return ChainDecision(ChainAction.GO_ON, ChainState.RUNNING, scheduler.meaning is Meaning.OTHER, said)


def _within(ended: ChainDecision, predecessor: Predecessor, spent: Spent, budget: Budget) -> ChainDecision:
    """Hold a decision to go on against the budgets."""
    if ended.action is not ChainAction.GO_ON:
        return ended
    if not budget.resumes and spent.rows:
        reason = "no retry can help: resume_from_cache is false, and rollouts are recorded"
        return _fail(f"{ended.reason}, and {reason}")
    cap = budget.max_walltime
    if cap is not None and spent.walltime >= cap and _ran_out_of_time(predecessor):
        used = format_duration(spent.walltime)
        reason = f"{ended.reason}, and {used} of walltime are used (max_walltime is {format_duration(cap)})"
        return _stop(reason)
    if ended.counts_retry and spent.retries >= budget.max_retries:
        reason = f"{ended.reason}, and max_retries ({budget.max_retries}) are used up"
        # what is not granted is no retry
        return _fail(reason)
    limit = budget.max_links_without_progress
    if limit is not None and spent.links_without_progress >= limit:
        idle = f"{counted(spent.links_without_progress, 'job', 'jobs in a row')} recorded nothing new"
        return _fail(f"{ended.reason}, and {idle} (max_links_without_progress is {limit})")
    return ended


def _ran_out_of_time(predecessor: Predecessor) -> bool:
    """Whether the walltime cap applies: after a time limit, a drain before it, or the machine's doing."""
    marker, scheduler = predecessor.marker, _scheduler(predecessor)
    if (scheduler and scheduler.meaning is Meaning.INFRASTRUCTURE) or (marker and marker.full_disks):
        return True
    return predecessor.same_job or bool(marker and marker.asked is Requester.EARLY)


def _scheduler(predecessor: Predecessor) -> SlurmState | None:
    return None if predecessor.same_job else predecessor.scheduler


def _go_on(reason: str) -> ChainDecision:
    return ChainDecision(ChainAction.GO_ON, ChainState.RUNNING, False, reason)


def _stop(reason: str) -> ChainDecision:
    return ChainDecision(ChainAction.STOP, ChainState.STOPPED, False, reason)


def _fail(reason: str) -> ChainDecision:
    return ChainDecision(ChainAction.FAIL, ChainState.FAILED, False, reason)
