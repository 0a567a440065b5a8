"""What is known about the benchmarks of submissions: plain values, each with its age; nothing is decided.

Two witnesses are asked: the small files of the run directories (one look a machine) and the executor (one
observation a machine), see `nemo_gym.orchestration.status.gather`. What cannot be read becomes a problem in
words, never a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.chain.run_end import Requester


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarker:
    """What a job script recorded as its end."""

    outcome: str
    status: int
    asked: str
    """Who asked it to stop; ``none``: nobody."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorReport:
    """What `gym eval run` said at its end."""

    state: str
    status: int
    expected: int
    recorded: int
    new: int
    hopeless: str | None = None
    """Why no retry can help."""

    @property
    def complete(self) -> bool:
        """Every expected rollout is recorded."""
        return self.state == "complete" or self.recorded >= self.expected > 0


class ChainAction(StrEnum):
    """What a job does, as ``shell/decide.sh`` decides it."""

    GO_ON = "go_on"
    STOP = "stop"
    """End with status 0, whatever became of the chain; nothing is queued."""
    FAIL = "fail"
    """End with status 1; nothing is queued."""

    @property
    def ends_chain(self) -> bool:
        """Whether the job does nothing else."""
        return self is not ChainAction.GO_ON


class ChainState(StrEnum):
    """What becomes of the chain then."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """The walltime cap was reached, or a person asked for a drain: not a failure."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """Whether a job went on after its predecessor, in the words of the job."""

    action: str
    """A `ChainAction`."""
    chain: str
    """A `ChainState`."""
    reason: str
    evidence: str
    """``scheduler=PREEMPTED source=scontrol marker=…``"""

    @property
    def ends_chain(self) -> bool:
        """Whether the job only ended its chain."""
        return self.action in {action for action in ChainAction if action.ends_chain}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One run of one job."""

    job_id: str
    restart: int
    predecessor: str = ""
    started: float | None = None
    """UTC seconds; `None` while it waits."""
    end: EndMarker | None = None
    exit: Mapping[str, Any] = field(default_factory=dict)
    """What a supervisor of this machine saw (``exit.json``)."""
    collected: CollectorReport | None = None
    decision: RecordedDecision | None = None
    queued: str = ""
    """Its successor's id."""
    queue_error: str = ""
    service_died: str = ""
    replicas_lost: int = 0
    """Replicas of its services that ended while others of them went on."""
    full_disks: int = 0
    """So many jobs in a row, this one the last, ended because their disk stayed full."""
    waits_for_room: float | None = None
    """UTC seconds since when its disk is full."""
    rows: int | None = None
    """Rows that were recorded when it started."""
    command: bool = False
    """A command of the user ran in place of the collector: its exit status is all there is to say."""
    walltime: int | None = None
    """Seconds that it was given."""
    lived: int | None = None
    """Seconds that it had lived when it last said so."""
    ready: int | None = None
    """Seconds from its start until its driver was started; `None`: it did not come so far."""

    @property
    def name(self) -> str:
        """``<job id>.<restart>``."""
        return f"{self.job_id}.{self.restart}"

    @property
    def asked(self) -> Requester:
        """Who asked it to stop, as its end marker says."""
        return Requester.NOBODY if self.end is None else Requester.of(self.end.outcome, self.end.asked)

    @property
    def stepped_aside(self) -> bool:
        """Whether it ended at once because another successor of the same job goes on."""
        decision = self.decision
        return decision is not None and (decision.action, decision.chain) == (
            ChainAction.STOP,
            ChainState.RUNNING,
        )

    @property
    def ended(self) -> bool:
        """Whether its files say that it has ended."""
        return self.end is not None or bool(self.exit)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorProgress:
    """What the collector last said."""

    state: str
    expected: int
    done: int
    mean_reward: float | None
    """Over all rollouts that have a result; `None`: not known."""
    rate: float | None
    """Results per second."""
    eta: float | None
    """Seconds, as it was at `updated_at`."""
    updated_at: float | None
    """UTC seconds."""
    new: int | None = None
    """Rollouts that the collector that said it has recorded itself."""
    until: str = ""
    """Of a run that may stop early: what was decided, or how far it is."""

    @property
    def at_work(self) -> bool:
        """Whether the collector had not ended when it said it."""
        return self.state in ("running", "draining")


@dataclass(frozen=True, slots=True)
class TimedObservation:
    """One observation, and when it was made: UTC seconds of this machine."""

    observation: JobObservation
    at: float
    fresh: bool = True
    """False: it was made by an earlier command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmission:
    """One time that the benchmark was queued again in place."""

    number: int
    job_id: str = ""
    error: str = ""
    owner: Mapping[str, Any] = field(default_factory=dict)
    """The process that queues it, as `nemo_runs.processes.trees.ProcessIdentity` has it."""
    reason: str = ""
    max_retries: int | None = None
    max_walltime: int | None = None
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that is known about one benchmark of a submission."""

    gym_job_id: str
    benchmark: str
    job_dir: Path
    shared_dir: Path | None = None
    """The folder of the job that runs it with others; `None`: it has its own."""
    where: str
    """The machine with the run directory."""
    elsewhere: bool = False
    """Whether that is another machine, whose files have to be fetched to be read."""
    first_job: str | None
    submit_error: str | None = None
    now: float = 0.0
    """When it was read, by the clock of the machine that holds the files: UTC seconds."""
    asked_at: float = 0.0
    """When the executor was asked: UTC seconds of this machine."""
    links: tuple[Link, ...] = ()
    """In the order in which they started; those that wait come last."""
    chain: tuple[str, ...] = ()
    cancelled: str = ""
    """The tombstone's lines, joined."""
    walltime: int | None = None
    """Seconds of ended runs."""
    retries: int | None = None
    progress: CollectorProgress | None = None
    score: float | None = None
    """Mean reward as added up last."""
    resubmissions: tuple[Resubmission, ...] = ()
    seen: Mapping[str, TimedObservation] = field(default_factory=dict)
    """What the executor says, by job id."""
    silent: str = ""
    """Why the executor did not answer."""
    unread: bool = False
    """Whether none of its files could be read: jobs that are not known of may be alive."""
    problems: tuple[str, ...] = ()
    """What could not be read."""

    @property
    def job_ids(self) -> tuple[str, ...]:
        """Every job that is known of, each once."""
        ids = [self.first_job or "", *self.chain]
        for link in self.links:
            ids += [link.job_id, link.queued]
        ids += [again.job_id for again in self.resubmissions]
        return tuple(dict.fromkeys(job_id for job_id in ids if job_id))

    def folder_of(self, job_id: str) -> Path:
        """The folder of a job: its own where it was queued again, else that which it shares."""
        if self.shared_dir is None:
            return self.job_dir
        own = {again.job_id for again in self.resubmissions if again.job_id}
        for link in self.links:
            if link.job_id in own and link.queued:
                own.add(link.queued)
        return self.job_dir if job_id in own else self.shared_dir

    @property
    def pending(self) -> tuple[Resubmission, ...]:
        """Attempts to queue it again that neither queued a job nor said why not."""
        return tuple(again for again in self.resubmissions if not again.job_id and not again.error)

    @property
    def last(self) -> Link | None:
        """The run that started last: the benchmark's state follows it.

        One of two successors of the same job that found the other at work stepped aside, and is not meant.
        """
        started = [link for link in self.links if link.started is not None and not link.stepped_aside]
        return started[-1] if started else None

    @property
    def complete(self) -> Link | None:
        """The last run whose collector counted every expected rollout: whatever came later, that is proof."""
        proofs = [link for link in self.links if link.collected is not None and link.collected.complete]
        return proofs[-1] if proofs else None

    @property
    def waiting(self) -> tuple[str, ...]:
        """Jobs that left no trace of a start: they wait, or ended before they began."""
        begun = {link.job_id for link in self.links if link.started is not None} | set(self.chain)
        return tuple(job_id for job_id in self.job_ids if job_id not in begun)

    def outlives(self, job_id: str, seen: TimedObservation) -> bool:
        """Whether files show a life of a job that is later than the end, or the waiting, seen of it.

        What was just said of this very job, beyond doubt, is outlived by nothing.
        """
        observation = seen.observation
        if not observation.state.settled or (seen.fresh and observation.proven):
            return False
        signs = [link.started or 0.0 for link in self.links if link.job_id == job_id]
        last, progress = self.last, self.progress
        if last is not None and last.job_id == job_id and not last.ended and progress is not None:
            signs.append((progress.updated_at or 0.0) if progress.at_work else 0.0)
        return max(signs, default=0.0) > (seen.at if observation.ended_at is None else observation.ended_at)

    def alive(self, *states: JobState) -> tuple[str, ...]:
        """Jobs that the executor sees queued or running (or in one of ``states``)."""
        found = {job_id: seen.observation.state for job_id, seen in self.seen.items()}
        return tuple(job for job, state in found.items() if (state in states if states else state.live))
