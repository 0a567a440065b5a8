"""Ending benchmarks for good: the tombstone first, then what waits, then what runs, until nothing is left.

The tombstone is the request, and every job of a chain obeys it; sweeping the queue only saves allocations. A
dying job can still queue a successor, so the queue is looked at until two looks in a row find nothing alive.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nemo_gym.chain.evidence import Evidence, Resubmission
from nemo_gym.chain.observation import JobState
from nemo_gym.errors import EXIT_ALIVE, EXIT_DONE, GymError, NotOursError, StillAliveError
from nemo_gym.events import ChainEvent
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records.locations import chosen
from nemo_gym.orchestration.status.gather import Groups, Key, Scope, gather
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_gym.orchestration.status.report import assess
from nemo_runs.clock import SecondsClock, SystemClock, utc_text
from nemo_runs.durable import disk
from nemo_runs.errors import DiskFullError, RunsError
from nemo_runs.processes import trees
from nemo_runs.processes.trees import Liveness, ProcessIdentity
from nemo_slurm.errors import NotReachableError, SlurmError

SCHEMA_VERSION = 1
_UNWRITTEN = (GymError, RunsError, SlurmError, OSError)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_ASK_AGAIN = 15.0
"""Seconds after which a job that is still there is asked once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """Who wants what ended, and why."""

    record: SubmissionRecord
    benchmark: str | None
    """Of a campaign also the name of a model: all of its benchmarks. `None`: all of the submission."""
    by: str
    why: str = "no reason was given"
    within: float = 120.0
    """Seconds to wait for the last job's end."""

    @property
    def benchmarks(self) -> frozenset[str]:
        """The names of those that are to end; raises `GymError` for one that the submission has not."""
        record = self.record
        entries = chosen(record, self.benchmark)
        return frozenset(entry.benchmark for entry in entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelOutcome:
    """What became of one benchmark."""

    gym_job_id: str
    benchmark: str
    state: str
    """As it is afterwards."""
    reason: str
    asked: tuple[str, ...] = ()
    """Jobs that were asked to end."""
    alive: tuple[str, ...] = ()
    """Jobs that are queued or running still."""
    unsure: tuple[str, ...] = ()
    """Jobs of which this is not known."""
    left_alone: tuple[str, ...] = ()
    """Those of them that are not proven to be of the run, so that nobody asked them to end."""


@dataclass(frozen=True, slots=True)
class CancelReport:
    """What became of all of them."""

    outcomes: tuple[CancelOutcome, ...]
    problems: tuple[str, ...] = ()
    """What the executor said when it could not do as it was asked."""

    @property
    def exit_status(self) -> int:
        """0 when every job is final, else 4."""
        left = any(outcome.alive or outcome.unsure for outcome in self.outcomes)
        return EXIT_ALIVE if left else EXIT_DONE

    def to_json(self) -> dict[str, Any]:
        """One document."""
        benchmarks = [asdict(outcome) for outcome in self.outcomes]
        return {
            "schema_version": SCHEMA_VERSION,
            "benchmarks": benchmarks,
            "troubles": list(self.problems),
            "ended": self.exit_status == EXIT_DONE,
        }


def cancel(
    request: CancelRequest,
    machines: Groups,
    *,
    clock: SecondsClock | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> CancelReport:
    """End benchmarks and return when every job of them is final, or when ``request.within`` has passed.

    Benchmarks of which nothing is alive are left as they are. When a tombstone cannot be written, nothing is
    cancelled: raises `NotReachableError` for a machine that does not answer, else `StillAliveError`.
    """
    clock = clock or SystemClock()
    cancellation = _Cancellation(request, machines, clock)
    known = cancellation.look()
    targets = [key for key, evidence in cancellation.asked_for(known).items() if _may_live(evidence)]
    cancellation.write_tombstones([known[key] for key in targets])
    deadline, pause, clean = clock.monotonic() + request.within, _FIRST_PAUSE, 0
    while targets:
        left = [known[key] for key in targets if is_left(known[key])]
        clean = 0 if left else clean + 1
        if clean > 1 or clock.monotonic() >= deadline:
            break
        cancellation.ask(left)
        sleep(min(pause, max(0.0, deadline - clock.monotonic())) if left else 0.0)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
        known = cancellation.look()
        cancellation.renew([known[key] for key in targets])
    return CancelReport(
        tuple(cancellation.outcome(evidence) for evidence in cancellation.asked_for(known).values()),
        tuple(cancellation.problems),
    )


class _Cancellation:
    """One cancellation on one machine."""

    def __init__(self, request: CancelRequest, machines: Groups, clock: SecondsClock) -> None:
        self._request, self._machines, self._clock = request, machines, clock
        self._benchmarks = request.benchmarks
        self._machine = _machine(machines, request.record)
        self._asked: dict[JobRef, float] = {}
        self._needed: set[Path] = set()
        """Folders of jobs that run other benchmarks too: a benchmark's tombstone alone ends it there.

        All jobs of one: the person who ends the one that runs may end what waits for its turn after it.
        """
        self._left_alone: set[str] = set()
        self.problems: list[str] = []

    def look(self) -> dict[Key, Evidence]:
        """All that is known of every job, those of benchmarks in the same jobs included."""
        record, benchmark = self._request.record, self._request.benchmark
        shared = any(entry.model is not None for entry in record.benchmarks)
        scope = Scope(every_job=True, benchmark=None if shared else benchmark)
        known = gather([record], self._machines, scope=scope, clock=self._clock)
        wanted = self.asked_for(known)
        self._needed = {
            job.job_dir
            for key, evidence in known.items()
            if key not in wanted and not evidence.cancelled and evidence.shared_dir is not None
            for job in _refs(evidence, evidence.alive())
        }
        return known

    def asked_for(self, known: Mapping[Key, Evidence]) -> dict[Key, Evidence]:
        """What the request is about."""
        return {key: evidence for key, evidence in known.items() if evidence.benchmark in self._benchmarks}

    def write_tombstones(self, targets: Sequence[Evidence]) -> None:
        """Write the tombstones, all or none, before any job is asked to end; then the journals."""
        at = utc_text(self._clock.seconds())
        request = self._request
        written: list[Evidence] = []
        try:
            for known in targets:
                if not known.cancelled:
                    written.append(known)
                    self._write_tombstone(known, at)
        except _UNWRITTEN as error:
            remaining = [known.benchmark for known in written if not self._remove_tombstone(known)]
            if isinstance(error, NotReachableError):
                raise
            raise StillAliveError(_nothing_done(error, targets, remaining)) from error
        event = {"at": at, "event": ChainEvent.CANCEL_ASKED.value, "by": request.by, "why": request.why}
        for known in targets:
            path = JobPaths(known.job_dir).events
            with self._reported(f"{path} does not say that it was cancelled"):
                self._machine.files.append(path, json.dumps(event).encode() + b"\n")

    def renew(self, targets: Sequence[Evidence]) -> None:
        """Write the tombstones that a resubmission has removed since."""
        for known in targets:
            if not known.cancelled and not known.unread:
                with self._reported(
                    f"{JobPaths(known.job_dir).cancelled} is gone and cannot be written again"
                ):
                    self._write_tombstone(known, utc_text(self._clock.seconds()))

    def _write_tombstone(self, known: Evidence, at: str) -> None:
        text = f"{at}\n{self._request.by}\n{self._request.why}\n"
        self._machine.files.write(JobPaths(known.job_dir).cancelled, text.encode())

    def _remove_tombstone(self, known: Evidence) -> bool:
        """Take a tombstone back, or what there is of it."""
        try:
            self._machine.files.remove(JobPaths(known.job_dir).cancelled)
        except _UNWRITTEN:
            return False
        return True

    @contextlib.contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Go on where something cannot be written: the jobs are to end all the same."""
        try:
            yield
        except _UNWRITTEN as error:
            said = f"{what}: {_reason(error)}"
            if said not in self.problems:
                self.problems.append(said)

    def ask(self, left: Sequence[Evidence]) -> None:
        """Ask what waits to go, then what runs, then what nobody can see."""
        waiting = [job for known in left for job in _refs(known, known.alive(JobState.QUEUED))]
        running = [job for known in left for job in _refs(known, known.alive(JobState.RUNNING))]
        unseen = [job for known in left for job in _refs(known, may_be_alive(known))]
        # a scheduler that was silent a moment ago is looked at again before it is asked for anything
        if left and all(known.silent for known in left):
            return
        for jobs in (waiting, running, unseen):
            if not self._ask([job for job in dict.fromkeys(jobs) if job.job_dir not in self._needed]):
                return

    def _ask(self, jobs: Sequence[JobRef]) -> bool:
        """Whether the executor heard it."""
        now = self._clock.monotonic()
        due = [job for job in jobs if now - self._asked.get(job, -_ASK_AGAIN) >= _ASK_AGAIN]
        if not due:
            return True
        self._asked |= dict.fromkeys(due, now)
        try:
            self._machine.executor.cancel(due)
        except (GymError, RunsError, SlurmError, OSError) as error:
            if str(error) not in self.problems:
                self.problems.append(str(error))
            if isinstance(error, NotOursError):
                self._left_alone.update(error.job_ids)
            return not isinstance(error.__cause__ or error, NotReachableError)
        return True

    def outcome(self, known: Evidence) -> CancelOutcome:
        """What became of one benchmark."""
        status = assess(known)
        asked = [
            job.job_id
            for job in self._asked
            if job.job_dir == known.folder_of(job.job_id) and job.job_id not in self._left_alone
        ]
        return CancelOutcome(
            gym_job_id=known.gym_job_id,
            benchmark=known.benchmark,
            state=status.state,
            reason=status.reason,
            asked=tuple(asked),
            alive=_alive(known),
            unsure=may_be_alive(known),
            left_alone=tuple(
                job for job in (*_alive(known), *may_be_alive(known)) if job in self._left_alone
            ),
        )


def _nothing_done(error: Exception, targets: Sequence[Evidence], remaining: Sequence[str]) -> str:
    """That nothing is cancelled, why, and what to do."""
    names = ", ".join(known.benchmark for known in targets)
    still = f"{names} still {'runs or waits' if len(targets) == 1 else 'run or wait'}"
    remedy = "free disk space" if _is_full(error) else "put that right"
    done = "nothing was cancelled"
    if remaining:
        done += f", but {', '.join(remaining)} will not go on after the job that runs now"
    return (
        f"the request cannot be written down ({_reason(error)}), so {done}: {still}; "
        f"{remedy} and give the command again."
    )


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return disk.is_full(error)
    return isinstance(error, DiskFullError) or os.strerror(errno.ENOSPC) in str(error)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error).rstrip(".")


def _machine(machines: Groups, record: SubmissionRecord) -> SubmissionMachine:
    return next(machine for machine, _ in machines.groups([record]))


def _refs(known: Evidence, job_ids: Sequence[str]) -> list[JobRef]:
    return [JobRef(job_id, known.folder_of(job_id)) for job_id in job_ids]


def _may_live(known: Evidence) -> bool:
    # where files cannot be read, the tombstone cannot be written: that is said, and not that nothing is alive
    return known.unread or is_left(known)


def is_left(known: Evidence) -> bool:
    """Whether a job of it lives or may live, or is being queued in this moment."""
    queueing = any(owner_of(again) is Liveness.ALIVE for again in known.pending)
    return bool(queueing or _alive(known) or may_be_alive(known))


def owner_of(again: Resubmission) -> Liveness:
    """What can be said of the process that queues a benchmark again."""
    try:
        return trees.liveness(ProcessIdentity.from_json(again.owner))
    except RunsError:
        return Liveness.ELSEWHERE  # an older Gym noted nobody down


def _alive(known: Evidence) -> tuple[str, ...]:
    return known.alive()


def may_be_alive(known: Evidence) -> tuple[str, ...]:
    """Jobs that may be alive although nobody sees them.

    An executor that answers "unknown" of a job that never left a trace has no such job. One that does not
    answer says nothing, and neither does one that cannot see a job whose folder has no end.
    """
    last = known.last
    open_links = {
        link.job_id for link in known.links if not link.ended and (link is last or link.started is None)
    }
    candidates = open_links | set(known.waiting) if known.silent else open_links
    final = {job_id for job_id, seen in known.seen.items() if seen.observation.state.final}
    return tuple(job for job in known.job_ids if job in candidates - final and job not in known.alive())
