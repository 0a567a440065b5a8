"""How a benchmark ended, from the last run that started: state, reason and whose doing it is. Pure.

`nemo_gym.chain.run_end` says which witness of a run's end is heard, here as for the next job of a chain. What
the last run decided about the run before it is an end too: only proof and a cancellation outrank it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nemo_gym import errors
from nemo_gym.chain.evidence import ChainAction, ChainState, CollectorReport, Evidence, Link
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.chain.run_end import FULL_DISKS, EndKind, Marker, Requester, RunEnd
from nemo_gym.job_paths import JobPaths
from nemo_runs.counts import counted
from nemo_slurm.states import Meaning, SlurmState, read_state


class BenchmarkState(StrEnum):
    """What a benchmark is doing, or what became of it."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    STOPPED = "stopped"
    """A limit that the user set was reached, or a person asked for a drain; not a failure."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """Nothing can be said from here. It never means that it has ended."""

    @property
    def live(self) -> bool:
        """Whether more is to come."""
        return self in (BenchmarkState.QUEUED, BenchmarkState.RUNNING)

    @property
    def final(self) -> bool:
        """Whether nothing more happens unless somebody asks for it."""
        return not self.live and self is not BenchmarkState.UNKNOWN

    @property
    def ended_well(self) -> bool:
        """Whether it ended, and not as a failure."""
        return self in (BenchmarkState.SUCCEEDED, BenchmarkState.STOPPED)

    @property
    def speaks_for_itself(self) -> bool:
        """Whether nobody asks why."""
        return self in (BenchmarkState.SUCCEEDED, BenchmarkState.RUNNING)

    @property
    def can_be_helped(self) -> bool:
        """Whether a change to the config or the site can help the jobs that follow."""
        return self in (BenchmarkState.RUNNING, BenchmarkState.FAILED)


class EndCause(StrEnum):
    """Whose doing an end is."""

    INFRASTRUCTURE = "infrastructure"
    """The scheduler or the machine ended it."""
    YOUR_CODE = "your code"
    """The program, the service or the configuration that was submitted ended it."""
    CONFIGURATION = "your configuration"
    """The cluster did not take the job: the submission asks for resources that the cluster does not have."""
    PERSON = "a person"
    """Its owner cancelled it."""
    LIMIT = "a limit you set"


NOTHING_FOLLOWS = ", and nothing follows it"
"""The end of a reason that holds only while no other job waits."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A state, why, and whose doing it is."""

    state: BenchmarkState
    reason: str = ""
    cause: EndCause | None = None
    look_at: str = ""
    """The log that says more: a step's name."""


_LOGS = JobPaths(Path()).logs.name
_OF_THE_CLUSTER = frozenset({"BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED"})
_CHAIN: Mapping[str, BenchmarkState] = {
    ChainState.SUCCEEDED: BenchmarkState.SUCCEEDED,
    ChainState.CANCELLED: BenchmarkState.CANCELLED,
    ChainState.STOPPED: BenchmarkState.STOPPED,
    ChainState.FAILED: BenchmarkState.FAILED,
}


def ended(known: Evidence, last: Link) -> Ending:
    """How a benchmark ended whose last started run is over, or is not seen any more."""
    seen = known.seen.get(last.job_id)
    observation = seen.observation if seen is not None else None
    proof = _complete(known, last)
    kind = run_end(known, last, observation, complete=proof is not None).kind
    if kind.is_final:
        return proof or _cancelled(known, last, observation)
    return _unsealed(last) or _decided(known, last) or _of_run(kind, known, last, observation)


def run_end(known: Evidence, last: Link, observation: JobObservation | None, *, complete: bool) -> RunEnd:
    """What is known about the end of a run, from the files and from the executor."""
    end, collected = last.end, last.collected
    marker = None
    if complete or end is not None or collected is not None or last.full_disks:
        said = end.status if end is not None else collected.status if collected is not None else 1
        marker = Marker(
            complete=complete,
            exit_status=said,
            asked=last.asked,
            hopeless=collected.hopeless if collected is not None else None,
            full_disks=last.full_disks,
        )
    state = word_of(last, observation)
    if observation is not None and observation.state is JobState.CANCELLED:
        state = state if state is not None and state.meaning is Meaning.CANCELLED else read_state("CANCELLED")
    return RunEnd(marker=marker, scheduler=state, cancelled_by_us=bool(known.cancelled))


def _of_run(kind: EndKind, known: Evidence, last: Link, observation: JobObservation | None) -> Ending:
    """The end of a run that nothing final is known of, and that decided nothing about the one before it."""
    if kind in _REPORTED_ENDS:
        return _reported_end(kind, last)
    state = word_of(last, observation)
    if state is not None and kind is EndKind.UNPROVEN:
        return _done(known, last, state.name)
    if state is not None and kind is EndKind.SCHEDULER:
        return _failed(last, state, observation)
    return _unseen(known, last, observation)


_FULL = (BenchmarkState.FAILED, "{own_or_full}" + NOTHING_FOLLOWS, EndCause.INFRASTRUCTURE, "job")
_REPORTED_ENDS = {
    EndKind.HOPELESS: (
        BenchmarkState.FAILED,
        "no retry can help: {hopeless}",
        EndCause.YOUR_CODE,
        "driver",
    ),
    EndKind.EXHAUSTED: (
        BenchmarkState.FAILED,
        "rollouts are missing and none of them may be tried again",
        EndCause.YOUR_CODE,
        "driver",
    ),
    EndKind.DRAINED_BY_PERSON: (BenchmarkState.STOPPED, "{own_or_drain}", EndCause.PERSON, ""),
    EndKind.FULL_DISK_AGAIN: _FULL,
    EndKind.FULL_DISK: _FULL,
    EndKind.DRAINED_EARLY: (
        BenchmarkState.FAILED,
        f"it drained ahead of its time limit with work left{NOTHING_FOLLOWS}",
        EndCause.INFRASTRUCTURE,
        "driver",
    ),
}
"""Ends that the job itself reported: state, reason, cause, log."""


def _reported_end(kind: EndKind, last: Link) -> Ending:
    state, reason, cause, log = _REPORTED_ENDS[kind]
    own = last.end.reason if last.end is not None else ""
    said = reason.format(
        hopeless=last.collected.hopeless if last.collected is not None else "",
        own_or_full=own or "its disk stayed full, or a quota used up",
        own_or_drain=own or "a person asked it to drain",
    )
    return Ending(state, said, cause, log)


def _unseen(known: Evidence, last: Link, observation: JobObservation | None) -> Ending:
    """The end of a run that no scheduler has a word for: by an exit status, and by its own end record."""
    if observation is not None and observation.state is JobState.SUCCEEDED:
        return _done(known, last, "exit status 0")
    if found := _by_marker(known, last):
        return found
    if observation is not None and observation.state.final:
        log = _log_of(last, observation.reason)
        return Ending(BenchmarkState.FAILED, observation.reason, EndCause.YOUR_CODE, log)
    return Ending(BenchmarkState.UNKNOWN, observation.reason if observation else "nobody saw how it ended")


def _complete(known: Evidence, last: Link) -> Ending | None:
    """Proof that every rollout is recorded, of whichever run, or that the config accepts what there is."""
    if known.complete is not None:
        return Ending(BenchmarkState.SUCCEEDED)
    if last.collected is not None and last.collected.status == errors.EXIT_DONE:
        return Ending(BenchmarkState.SUCCEEDED, _accepted(last.collected))
    decision = last.decision
    if (
        decision is not None
        and decision.chain == ChainState.SUCCEEDED
        and "complete=yes" in decision.evidence
    ):
        before = _before(known, last)
        found = before.collected if before is not None else None
        accepted = _accepted(found) if found is not None and found.expected else decision.reason
        return Ending(BenchmarkState.SUCCEEDED, accepted)
    return None


def _accepted(found: CollectorReport) -> str:
    return (
        f"{found.recorded:,} of {counted(found.expected, 'rollout has', 'rollouts have')} a "
        "result, which the config accepts"
    )


def _before(known: Evidence, link: Link) -> Link | None:
    """The newest run of the job about whose end a link decided: the job before, as a rule."""
    about = re.search(r"\babout=(\S+)", link.decision.evidence) if link.decision is not None else None
    job_id = about[1] if about is not None and about[1] != "nobody" else link.predecessor
    return next((run for run in reversed(known.links) if run.job_id == job_id), None)


def _cancellation(tombstone: str) -> str:
    """Who asked for the end, when and why, of a tombstone's lines."""
    at, *rest = tombstone.split(", ", 2)
    by, why = (*rest, "", "")[:2]
    return f"by {by} at {at}{f': {why}' if why else ''}" if by else tombstone


def _cancelled(known: Evidence, last: Link, observation: JobObservation | None) -> Ending:
    if known.cancelled:
        return Ending(BenchmarkState.CANCELLED, _cancellation(known.cancelled), EndCause.PERSON)
    state = word_of(last, observation)
    said = observation.reason if observation is not None else ""
    cause = EndCause.INFRASTRUCTURE if observation is not None and observation.stranger else EndCause.PERSON
    if state is not None and state.meaning is Meaning.CANCELLED:
        by = said if said.startswith("cancelled by ") else "cancelled"
        if by == "cancelled" and state.author is not None:
            by = f"cancelled by user {state.author}"
        return Ending(BenchmarkState.CANCELLED, f"job {last.job_id} was {by}", cause)
    if observation is None or observation.state is not JobState.CANCELLED:
        said = last.end.reason if last.end is not None else ""
    return Ending(BenchmarkState.CANCELLED, said or f"job {last.job_id} was cancelled", cause)


def _unsealed(last: Link) -> Ending | None:
    """A job that found that what it was to read is not what was queued."""
    if last.decision is None or "seal=broken" not in last.decision.evidence:
        return None
    return Ending(BenchmarkState.FAILED, last.decision.reason, EndCause.PERSON, "job")


def _decided(known: Evidence, last: Link) -> Ending | None:
    """A job that found that nothing is to be done ended the chain in so many words.

    At a cap the cause of the last end is reported with it: the cap is seldom what has to be fixed.
    """
    decision = last.decision
    if decision is None or not decision.ends_chain:
        return None
    state = _CHAIN.get(decision.chain, BenchmarkState.FAILED)
    before, evidence = _before(known, last), _evidence_state(last)
    if decision.action == ChainAction.STOP and evidence is not None and evidence.meaning is Meaning.COMPLETE:
        return _unproven(known, before or last, "the scheduler says COMPLETED of the job before")
    if state is BenchmarkState.CANCELLED:
        foreign = re.search(r"\bstranger=yes\b", decision.evidence)
        return Ending(state, decision.reason, EndCause.INFRASTRUCTURE if foreign else EndCause.PERSON)
    follows = next((run for run in reversed(known.links) if run.job_id == last.predecessor), None)
    if follows is not None and follows.full_disks and (follows is before or follows.full_disks >= FULL_DISKS):
        return Ending(state, decision.reason, EndCause.INFRASTRUCTURE, "job")
    own = before.end.reason if before is not None and before.end is not None else ""
    reason = decision.reason if not own or own in decision.reason else f"{decision.reason}; {own}"
    if state is BenchmarkState.STOPPED:
        by_person = before is not None and before.asked is Requester.PERSON
        return Ending(
            state, own if by_person and own else reason, EndCause.PERSON if by_person else EndCause.LIMIT
        )
    cause = _cause_of(evidence) or EndCause.YOUR_CODE
    return Ending(state, reason, cause, _log_of(before, own) if before is not None else "job")


def _done(known: Evidence, last: Link, said: str) -> Ending:
    """The end of a job that ended with 0 without proof: good enough for a user's own command alone."""
    progress = known.progress
    if last.command or (progress is not None and progress.done >= progress.expected > 0):
        return Ending(BenchmarkState.SUCCEEDED)
    # a command of a gym that did not note it yet: no collector has ever said anything
    unsaid = progress is None and last.collected is None and last.ready is None
    if unsaid and last.end is not None and last.end.status == 0:
        return Ending(BenchmarkState.SUCCEEDED)
    return _unproven(known, last, f"job {last.job_id} ended with {said}")


def _unproven(known: Evidence, last: Link, said: str) -> Ending:
    """The scheduler calls the job done, and rollouts are missing."""
    found, progress = last.collected, known.progress
    have = "nothing proves that every rollout is recorded"
    if progress is not None and progress.expected > 0:
        if progress.done >= progress.expected:
            return Ending(BenchmarkState.SUCCEEDED)
        have = f"{progress.done:,} of {counted(progress.expected, 'rollout has', 'rollouts have')} a result"
    elif found is not None and found.expected > 0:
        have = f"{found.recorded:,} of {counted(found.expected, 'rollout has', 'rollouts have')} a result"
    return Ending(BenchmarkState.FAILED, f"{said}, but {have}", EndCause.INFRASTRUCTURE, "job")


def _failed(last: Link, state: SlurmState, observation: JobObservation | None) -> Ending:
    cause = _cause_of(state) or EndCause.YOUR_CODE
    own = last.end.reason if last.end is not None else ""
    seen = observation.reason if observation is not None else ""
    if cause is EndCause.INFRASTRUCTURE:
        reason = f"{state.name}: {state.reason}"
        queueing = f"; its successor could not be queued ({last.queue_error})" if last.queue_error else ""
        return Ending(BenchmarkState.FAILED, reason + queueing, cause, "job")
    reason = own or seen or f"{state.name}: {state.reason}"
    return Ending(BenchmarkState.FAILED, reason, cause, _log_of(last, reason))


def _by_marker(known: Evidence, last: Link) -> Ending | None:
    """What the job itself said, where nobody else says anything."""
    end = last.end
    if end is None:
        return None
    if end.outcome == "abandoned":
        return Ending(
            BenchmarkState.FAILED, end.reason or "its supervisor is gone", EndCause.INFRASTRUCTURE, "job"
        )
    if end.status == 0:
        return _done(known, last, "exit status 0")
    if end.status == errors.EXIT_INCOMPLETE and end.asked not in ("none", ""):
        reason = end.reason or f"asked to stop ({end.asked})"
        return Ending(BenchmarkState.FAILED, reason, EndCause.INFRASTRUCTURE, "driver")
    reason = end.reason or f"it ended with exit status {end.status}"
    return Ending(BenchmarkState.FAILED, reason, EndCause.YOUR_CODE, _log_of(last, reason))


def word_of(last: Link, observation: JobObservation | None) -> SlurmState | None:
    """The scheduler's word for how a run ended: as it was observed, else as a supervisor wrote it down."""
    word = observation.word if observation is not None and observation.state.final else ""
    return read_state(word or str(last.exit.get("state", "")))


def _evidence_state(last: Link) -> SlurmState | None:
    """The state of the predecessor on which a decision was taken."""
    found = re.search(r"scheduler=(\S+)", last.decision.evidence) if last.decision is not None else None
    return read_state(found[1]) if found else None


def _cause_of(state: SlurmState | None) -> EndCause | None:
    if state is None or state.meaning is Meaning.LAG:
        return None
    if state.meaning is Meaning.INFRASTRUCTURE or state.name in _OF_THE_CLUSTER:
        return EndCause.INFRASTRUCTURE
    return EndCause.PERSON if state.meaning is Meaning.CANCELLED else EndCause.YOUR_CODE


def _log_of(last: Link, reason: str) -> str:
    """The log that says more: a dead service's, the one that the reason names, else the job script's."""
    if last.service_died:
        return last.service_died.split()[0]
    named = re.search(rf"{_LOGS}/(.+?)-{re.escape(last.job_id)}\.log", reason)
    return named[1] if named else "job"
