"""How a run of a job ended: what is known about it, and which of its witnesses is heard. Pure.

Witnesses lie in known ways, so they are heard in one order, the order of `EndKind`: proof of completeness
(identities, never an exit status), a cancellation (ours or the scheduler's), what the job itself said where
that outranks the scheduler's other states, those states, and at last "nobody saw it". ``scancel`` makes a
driver drain as well, so a marker alone never outweighs CANCELLED. `nemo_gym.chain.endings` follows this
order, and so does the model that tests hold ``shell/decide.sh`` to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nemo_gym.errors import EXIT_EXHAUSTED, EXIT_INCOMPLETE
from nemo_slurm.states import Meaning, SlurmState

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
    """SIGTERM: a time limit, a preemption or ``scancel``; only the scheduler knows."""
    PERSON = "person"
    """Somebody wrote into the drain file."""

    @classmethod
    def of(cls, outcome: str, who: str) -> Requester:
        """From the words of an end marker: what became of the job, and who asked it to stop.

        A signal without more is our own early one when the job only drained, anybody's when it was stopped.
        A word that is not ours stands for a person.
        """
        if who == "signal":
            return cls.EARLY if outcome == "drained" else cls.TERM
        ours = {"cancel": cls.CANCEL, "walltime": cls.EARLY}
        ours |= dict.fromkeys(("", "none", "continued", "service_died"), cls.NOBODY)
        return ours.get(who, cls.PERSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a job script recorded as its end."""

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
class RunEnd:
    """What is known about the end of a run."""

    marker: Marker | None
    """`None` when it left none: it was killed, or its node failed."""
    scheduler: SlurmState | None
    """What the scheduler says, `None` when it says nothing (yet)."""
    cancelled_by_us: bool = False
    """Whether the tombstone of `gym job cancel` is there."""
    same_job: bool = False
    """The run that asks is of the same job, after a requeue: the scheduler's state is its own."""
    owner: int | None = None
    """Number of the user who owns the chain's jobs."""

    @property
    def said(self) -> SlurmState | None:
        """What the scheduler says of this very run."""
        return None if self.same_job else self.scheduler

    @property
    def kind(self) -> EndKind:
        """What the first witness says that says anything."""
        return next(kind for kind in EndKind if kind in self._witnessed())

    def _witnessed(self) -> set[EndKind]:
        """Everything that any witness says."""
        return {_by_scheduler(self), *_by_marker(self.marker), *_by_person(self)}


class EndKind(StrEnum):
    """The ends of a run, in the order in which their witnesses are heard: the first one counts."""

    COMPLETE = "complete"
    """Every rollout is recorded, or the config accepts what there is."""
    CANCELLED = "cancelled"
    """We cancelled it: the tombstone is there, or the job knew of it."""
    CANCELLED_THERE = "cancelled_there"
    """The scheduler says that somebody cancelled it."""
    HOPELESS = "hopeless"
    EXHAUSTED = "exhausted"
    """Rollouts are missing, and none of them may be tried again."""
    DRAINED_BY_PERSON = "drained_by_person"
    FULL_DISK_AGAIN = "full_disk_again"
    """As `FULL_DISK`, and too many jobs before it ended so."""
    FULL_DISK = "full_disk"
    DRAINED_EARLY = "drained_early"
    """It drained ahead of its time limit, with work left."""
    REQUEUED = "requeued"
    """The scheduler put the job back into its queue."""
    UNSEEN = "unseen"
    """The scheduler says nothing of it, or not yet how it ended."""
    UNPROVEN = "unproven"
    """The scheduler says COMPLETED."""
    SCHEDULER = "scheduler"
    """The scheduler's state says how it ended."""

    @property
    def is_final(self) -> bool:
        """Whether nothing outranks it, not even what a later run decided about it."""
        return self in (EndKind.COMPLETE, EndKind.CANCELLED, EndKind.CANCELLED_THERE)


def _by_person(run: RunEnd) -> set[EndKind]:
    asked = run.marker is not None and run.marker.asked is Requester.CANCEL
    return {EndKind.CANCELLED} if run.cancelled_by_us or asked else set()


def _by_marker(marker: Marker | None) -> set[EndKind]:
    if marker is None:
        return set()
    early = marker.exit_status == EXIT_INCOMPLETE and marker.asked is Requester.EARLY
    found = {
        EndKind.COMPLETE: marker.complete,
        EndKind.HOPELESS: bool(marker.hopeless),
        EndKind.EXHAUSTED: marker.exit_status == EXIT_EXHAUSTED,
        EndKind.DRAINED_BY_PERSON: marker.asked is Requester.PERSON,
        EndKind.FULL_DISK_AGAIN: marker.full_disks >= FULL_DISKS,
        EndKind.FULL_DISK: marker.full_disks > 0 and not marker.undecided,
        EndKind.DRAINED_EARLY: early,
    }
    return {kind for kind, witnessed in found.items() if witnessed}


def _by_scheduler(run: RunEnd) -> EndKind:
    if run.same_job:
        return EndKind.REQUEUED
    if run.scheduler is None:
        return EndKind.UNSEEN
    kinds = {
        Meaning.CANCELLED: EndKind.CANCELLED_THERE,
        Meaning.LAG: EndKind.UNSEEN,
        Meaning.COMPLETE: EndKind.UNPROVEN,
    }
    return kinds.get(run.scheduler.meaning, EndKind.SCHEDULER)
