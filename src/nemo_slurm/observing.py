"""What controller and accounting say of a job, made one: pure decisions over their rows.

The controller is believed first: it knows at once, works without accounting, and forgets after a while.
Accounting lags by seconds, can say "running" of a job that ended, shows ends that are half written, and keeps
records of older jobs with the same number, which `nemo_slurm.identity` distinguishes. Nothing of a job in
either is "not known", never "gone" and never "done".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from nemo_slurm.identity import belongs, is_proven
from nemo_slurm.records import AccountingRun, QueueRow, SlurmJob
from nemo_slurm.states import Meaning, SlurmState

_COMES_BACK = frozenset({"PREEMPTED", "NODE_FAIL", "REQUEUED", "BOOT_FAIL"})
"""States in which a job that may be requeued can pass for ended before it waits again."""


class Witness(StrEnum):
    """Who said it."""

    CONTROLLER = "controller"
    ACCOUNTING = "accounting"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class JobLook:
    """One look at one job. Times are UTC seconds of the cluster."""

    job: SlurmJob
    source: Witness
    state: SlurmState | None
    """`None`: neither of them can say (yet)."""
    settled: bool
    """The job has ended and does not come back under its number."""
    reason: str = ""
    """The controller's word for why it is so (``Dependency``, ``NonZeroExitCode``)."""
    exit_status: int | None = None
    signal: int | None = None
    restarts: int | None = None
    submitted_at: float | None = None
    eligible_at: float | None = None
    """Since when it could have run, where that is known: nothing that it depends on kept it any more."""
    started_at: float | None = None
    ended_at: float | None = None
    runs: tuple[AccountingRun, ...] = ()
    """Accounting's records of this job, the oldest first, one for each of its runs."""
    proven: bool = False
    """The record that reports the state is this job's beyond doubt."""
    author: int | None = None
    """Number of the user who cancelled it, where that is known."""
    owner: int | None = None
    """Number of the user who owns it, where that is known."""


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """One look at many jobs."""

    seen: Mapping[SlurmJob, JobLook]
    controller: str | None = None
    """Why the controller did not answer; `None` when it did."""
    accounting: str | None = None
    """Why accounting did not answer; `None` when it did, or was not asked."""

    def __getitem__(self, job: SlurmJob) -> JobLook:
        return self.seen[job]


def observed(
    job: SlurmJob, rows: Sequence[QueueRow] | None, runs: Sequence[AccountingRun] | None, *, asked: bool
) -> JobLook:
    """Join what was found; ``rows`` or ``runs`` is `None` when that side did not answer.

    ``asked``: whether accounting was asked about this job. An ended job is settled when the controller says
    so, or accounting does and the controller does not hold it (or is away: an end that was written down is an
    end).
    """
    row = next((row for row in rows or () if row.id == job.id and belongs(job, row)), None)
    # accounting may not know yet what disowns a record for the controller: a name comes late. The shell has
    # the same two rules (``gym_is_this_job``)
    foreign = {row.submitted_at for row in rows or () if row.id == job.id and not belongs(job, row)}
    runs = [run for run in runs or () if run.submitted_at not in foreign - {None}]
    if rows is None:
        # nobody can disown a record that has neither name nor comment
        runs = [run for run in runs if run.name or run.comment]
    own = own_runs(job, runs) if asked else ()
    parts = components(job, runs) if asked and own else ()
    if row is None:
        return _from_accounting(job, own, parts, controller_away=rows is None)
    if row.state.meaning is Meaning.COMPLETE and (broken := _broken(parts)) is not None:
        row = replace(row, state=broken.state, exit_status=broken.exit_status, signal=broken.signal)
    last = next((run for run in reversed(own) if run.state.name == row.state.name), None)
    final = has_ended(row.state)
    return JobLook(
        job,
        Witness.CONTROLLER,
        row.state,
        settled=final and not may_come_back(row),
        reason=row.reason if row.reason != "None" else "",
        exit_status=_either(row.exit_status, last.exit_status if last else 0) if final else None,
        signal=_either(row.signal, last.signal if last else 0) if final else None,
        restarts=row.restarts,
        submitted_at=row.submitted_at,
        eligible_at=row.eligible_at,
        started_at=row.started_at if row.state.name != "PENDING" else None,
        ended_at=row.ended_at if final else None,
        runs=own,
        proven=is_proven(job, row),
        author=row.state.author if last is None else last.state.author,
        owner=row.user,
    )


def has_ended(state: SlurmState) -> bool:
    """Whether a state is an end. A state that is not in the table is not an end, so a caller that waits goes
    on waiting.
    """
    return state.known and state.meaning is not Meaning.LAG


def is_written(run: AccountingRun) -> bool:
    """Whether accounting has all of a run's end.

    Slurm 22.05, measured: while slurmdbd is behind, the record of a start is written with the state that the
    job has by then, ``FAILED`` without a moment and with exit status 0; the rest of the end comes later.
    """
    return has_ended(run.state) and run.ended_at is not None


def own_runs(job: SlurmJob, runs: Sequence[AccountingRun]) -> tuple[AccountingRun, ...]:
    """The records that belong to this job and not to an older one with its number, the oldest first.

    Each run is there once: of several records of one start, one that reports an end counts.
    """
    found: dict[tuple[float | None, float | None], AccountingRun] = {}
    for run in runs:
        start = (run.submitted_at, run.started_at)
        if run.id != job.id or run.component_of is not None or not belongs(job, run):
            continue
        if start not in found or found[start].ended_at is None or run.ended_at is not None:
            found[start] = run
    order = sorted(found, key=lambda start: (start[0] or 0.0, start[1] or float("inf")))
    return tuple(found[start] for start in order)


def components(job: SlurmJob, runs: Sequence[AccountingRun]) -> tuple[AccountingRun, ...]:
    """The records of the further components of a heterogeneous job."""
    return tuple(run for run in runs if run.component_of == job.id and belongs(job, run))


def _broken(parts: Sequence[AccountingRun]) -> AccountingRun | None:
    """A component that ended otherwise than by itself and well: then the job did not either."""
    return next((run for run in parts if is_written(run) and run.state.meaning is not Meaning.COMPLETE), None)


def may_come_back(row: QueueRow) -> bool:
    """Whether a state that looks final may be a stop on the way back into the queue."""
    return row.requeues and row.state.name in _COMES_BACK


def _from_accounting(
    job: SlurmJob, runs: tuple[AccountingRun, ...], parts: tuple[AccountingRun, ...], *, controller_away: bool
) -> JobLook:
    """A job that the controller does not hold, or cannot be asked about."""
    last = runs[-1] if runs else None
    proven = last is not None and is_proven(job, last)
    if last is not None and is_written(last) and last.state.meaning is Meaning.COMPLETE:
        last = _broken(parts) or last
    if last is None or not is_written(last):
        # a record that says "running" of a job that the controller has forgotten is an old one
        shown = last.state if last and controller_away and not has_ended(last.state) else None
        source = Witness.ACCOUNTING if shown else Witness.NOBODY
        return JobLook(job, source, shown, settled=False, runs=runs, restarts=len(runs) - 1 if runs else None)
    unsure = controller_away and last.state.name in _COMES_BACK
    return JobLook(
        job,
        Witness.ACCOUNTING,
        last.state,
        settled=not unsure,
        exit_status=last.exit_status,
        signal=last.signal,
        restarts=len(runs) - 1,
        submitted_at=runs[0].submitted_at,
        eligible_at=last.eligible_at,
        started_at=last.started_at,
        ended_at=last.ended_at,
        runs=runs,
        proven=proven,
        author=last.state.author,
        owner=last.user,
    )


def _either(first: int, second: int) -> int:
    return first or second
