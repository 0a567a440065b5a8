"""Whether a chain of jobs goes on, decided from how the job before ended: the model of ``shell/decide.sh``.

Jobs run the shell, which decides before anything else is known to work there; this says the same in Python,
for tests. `nemo_gym.chain.run_end` says which witness of the end is heard; here is what follows from each
end, and the budgets. ``tests/nemo_gym/shell/test_chain_decision.py`` feeds both.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.evidence import ChainAction, ChainState
from nemo_gym.chain.run_end import EndKind, Requester, RunEnd
from nemo_gym.errors import EXIT_DONE, EXIT_ERROR
from nemo_runs.counts import counted
from nemo_runs.durations import slurm_time
from nemo_slurm.states import Meaning, foreign

LOOKS = 6
"""How often a state that is not visible yet is looked up, ten seconds apart: accounting lags."""


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


def look_again(predecessor: RunEnd, *, looks: int) -> bool:
    """Whether to ask the scheduler once more after so many looks.

    Nothing is gained when the marker or the tombstone has decided already.
    """
    if looks >= LOOKS or predecessor.same_job or predecessor.cancelled_by_us:
        return False
    if predecessor.marker and predecessor.marker.complete:
        return False
    return predecessor.scheduler is None or predecessor.scheduler.meaning is Meaning.LAG


def decide(predecessor: RunEnd | None, spent: Spent, budget: Budget) -> ChainDecision:
    """Say whether the chain goes on after ``predecessor``; `None` is the first job, of no cancelled chain."""
    if predecessor is None:
        return _go_on("the first job of its chain")
    return _within(_after(predecessor), predecessor, spent, budget)


def _after(run: RunEnd) -> ChainDecision:
    """What follows from the end of the run before, budgets aside."""
    kind = run.kind
    if kind is EndKind.SCHEDULER:
        assert run.said is not None
        reason = f"the job before ended as {run.said.name} ({run.said.reason})"
        counts = run.said.meaning is Meaning.OTHER
        return ChainDecision(ChainAction.GO_ON, ChainState.RUNNING, counts, reason)
    action, chain = _FOLLOWS[kind]
    return ChainDecision(action, chain, False, _sentence(kind, run))


_GOES_ON = (ChainAction.GO_ON, ChainState.RUNNING)
_FAILS = (ChainAction.FAIL, ChainState.FAILED)
_FOLLOWS = {
    EndKind.COMPLETE: (ChainAction.STOP, ChainState.SUCCEEDED),
    EndKind.CANCELLED: (ChainAction.STOP, ChainState.CANCELLED),
    EndKind.CANCELLED_THERE: (ChainAction.STOP, ChainState.CANCELLED),
    EndKind.HOPELESS: _FAILS,
    EndKind.EXHAUSTED: _FAILS,
    EndKind.DRAINED_BY_PERSON: (ChainAction.STOP, ChainState.STOPPED),
    EndKind.FULL_DISK_AGAIN: _FAILS,
    EndKind.FULL_DISK: _GOES_ON,
    EndKind.DRAINED_EARLY: _GOES_ON,
    EndKind.REQUEUED: _GOES_ON,
    EndKind.UNSEEN: _GOES_ON,
    EndKind.UNPROVEN: (ChainAction.STOP, ChainState.FAILED),
}
_SENTENCES = {
    EndKind.COMPLETE: "every rollout is recorded",
    EndKind.CANCELLED: "the chain was cancelled",
    EndKind.CANCELLED_THERE: "the job before was cancelled{by}",
    EndKind.HOPELESS: "no retry can help: {hopeless}",
    EndKind.EXHAUSTED: "rollouts are missing and none of them may be tried again",
    EndKind.DRAINED_BY_PERSON: "a person asked the job before to drain",
    EndKind.FULL_DISK_AGAIN: (
        "the disk stayed full in {full_disks} jobs in a row; free disk space, then resubmit the benchmark"
    ),
    EndKind.FULL_DISK: "the job before ended because its disk stayed full",
    EndKind.DRAINED_EARLY: "the job before drained ahead of its time limit",
    EndKind.REQUEUED: "the scheduler put this job back into its queue",
    EndKind.UNSEEN: "nobody saw how the job before ended",
    EndKind.UNPROVEN: (
        "the scheduler says COMPLETED of the job before, but nothing proves that every rollout is recorded"
    ),
}


def _sentence(kind: EndKind, run: RunEnd) -> str:
    marker = run.marker
    return _SENTENCES[kind].format(
        by=_by(run),
        hopeless=marker.hopeless if marker else "",
        full_disks=marker.full_disks if marker else 0,
    )


def _by(run: RunEnd) -> str:
    """Who cancelled it, as the scheduler says; with a blank before it, empty where it does not say."""
    author = run.said.author if run.said is not None else None
    who = foreign(author, run.owner) or ("" if author is None else f"user {author}")
    return f" by {who}" if who else ""


def _within(ended: ChainDecision, predecessor: RunEnd, spent: Spent, budget: Budget) -> ChainDecision:
    """Hold a decision to go on against the budgets."""
    if ended.action is not ChainAction.GO_ON:
        return ended
    if not budget.resumes and spent.rows:
        reason = "no retry can help: resume_from_cache is false, and rollouts are recorded"
        return _fail(f"{ended.reason}, and {reason}")
    cap = budget.max_walltime
    if cap is not None and spent.walltime >= cap and _ran_out_of_time(predecessor):
        used = slurm_time(spent.walltime)
        reason = f"{ended.reason}, and {used} of walltime are used (max_walltime is {slurm_time(cap)})"
        return _stop(reason)
    if ended.counts_retry and spent.retries >= budget.max_retries:
        reason = f"{ended.reason}, and max_retries ({budget.max_retries}) are used up"
        # what is not granted is not a retry
        return _fail(reason)
    limit = budget.max_links_without_progress
    if limit is not None and spent.links_without_progress >= limit:
        idle = f"{counted(spent.links_without_progress, 'job', 'jobs in a row')} recorded nothing new"
        return _fail(f"{ended.reason}, and {idle} (max_links_without_progress is {limit})")
    return ended


def _ran_out_of_time(predecessor: RunEnd) -> bool:
    """Whether the walltime cap applies: after a time limit, a drain before it, or the machine's doing."""
    marker, scheduler = predecessor.marker, predecessor.said
    if (scheduler and scheduler.meaning is Meaning.INFRASTRUCTURE) or (marker and marker.full_disks):
        return True
    return predecessor.same_job or bool(marker and marker.asked is Requester.EARLY)


def _go_on(reason: str) -> ChainDecision:
    return ChainDecision(ChainAction.GO_ON, ChainState.RUNNING, False, reason)


def _stop(reason: str) -> ChainDecision:
    return ChainDecision(ChainAction.STOP, ChainState.STOPPED, False, reason)


def _fail(reason: str) -> ChainDecision:
    return ChainDecision(ChainAction.FAIL, ChainState.FAILED, False, reason)
