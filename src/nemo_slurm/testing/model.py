"""The fake cluster's jobs and rules, with a clock that moves on request. No files, no processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from nemo_slurm.testing.jobs import KILLED, START, FakeJob, FakeRecord, Faults


@dataclass
class ClusterModel:
    """The whole cluster."""

    now: float = START
    next_id: int = 1000
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    old: dict[str, list[FakeRecord]] = field(default_factory=dict)
    """Records of older jobs whose numbers are used again."""
    faults: Faults = field(default_factory=Faults)
    calls: dict[str, int] = field(default_factory=dict)
    """How often each program was called."""

    # -------------------------------------------------------------- what happens to jobs

    def accept(self, job: FakeJob) -> FakeJob:
        """Take a job into the queue."""
        self.jobs[job.id] = job
        self.next_id = max(self.next_id, int(job.id)) + 1
        self.settle()
        return job

    def start(self, number: str) -> None:
        """Give a waiting job its nodes."""
        job = self._one(number, "PENDING")
        job.state, job.reason, job.started_at, job.ended_at = "RUNNING", "None", self.now, None

    def end(self, number: str, state: str, status: int | None = None, author: int | None = None) -> None:
        """End a job now, in a state and, by its own doing, with a status."""
        job = self.jobs[number]
        if not job.active:
            return
        default = KILLED.get(state, (1 if state == "FAILED" else 0, 0))
        job.status, job.signal = default if status is None else (status, 0)
        job.state, job.author, job.ended_at = state, author, self.now
        job.reason = "NonZeroExitCode" if state == "FAILED" else "None"
        self.settle()

    def requeue(self, number: str, state: str = "REQUEUED") -> None:
        """End a run; the job waits again under its number. ``state`` is what accounting keeps of the run."""
        job = self._one(number, "RUNNING")
        job.status, job.signal = KILLED.get(state, (0, 15))
        job.state, job.ended_at = state, self.now
        job.runs.append(job.as_run())
        job.state, job.reason, job.restarts, job.suspended = "PENDING", "BeginTime", job.restarts + 1, 0.0
        job.submitted_at, job.started_at, job.ended_at = self.now, None, None
        self.settle()

    def suspend(self, number: str, seconds: float) -> None:
        """Let a running job make no progress for so long, time included."""
        self._one(number, "RUNNING").suspended += seconds
        self.move(seconds)

    def move(self, seconds: float) -> None:
        """Let time pass; time limits are kept at the second they are due."""
        end = self.now + seconds
        while due := [
            d for d in (self._due(job) for job in self.jobs.values()) if d is not None and d[0] <= end
        ]:
            at, number = min(due)
            self.now = max(self.now, at)
            self.end(number, "TIMEOUT")
        self.now = end
        self.settle()

    def settle(self) -> None:
        """What follows by itself: dependencies, starts, forgetting."""
        for job in list(self.jobs.values()):
            if job.state == "PENDING":
                self._consider(job)
        for number, job in list(self.jobs.items()):
            if job.ended_at is not None and not job.active and self.now - job.ended_at >= 1_000_000:
                del self.jobs[number]

    # -------------------------------------------------------------- what can be seen

    def in_queue(self) -> list[FakeJob]:
        """Jobs that the controller knows and shows."""
        return [job for job in self.jobs.values() if self._known(job) and self._shown(job)]

    def records(self, number: str) -> list[FakeRecord]:
        """What accounting shows of a number now, the oldest first."""
        found = self._records(number)
        if not self.faults.doubles_records:
            return found
        stale = [dataclasses.replace(run, state="RUNNING") for run in found]
        return [record for pair in zip(stale, found, strict=True) for record in pair]

    def _records(self, number: str) -> list[FakeRecord]:
        found = list(self.old.get(number, ()))
        job = self.jobs.get(number)
        lag = self.faults.accounting_lag
        if job is None or number in self.faults.invisible:
            return found
        found += job.runs
        if self.now < job.submitted_at + lag:
            return found
        current = job.as_run()
        if job.active:
            current.ended_at = self.now
            return [*found, current]
        if self.now >= (job.ended_at or 0.0) + lag:
            return [*found, current]
        if not self.faults.lag_shows:
            return found
        half = self.faults.lag_shows == "half"
        state = current.state if half else self.faults.lag_shows
        shown = dataclasses.replace(current, state=state, status=0, signal=0, ended_at=self.now)
        shown.half_written = half
        return [*found, shown]

    def queued(self) -> int:
        """Jobs that wait or run."""
        return sum(job.active for job in self.jobs.values())

    # -------------------------------------------------------------- keeping it in a file

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave."""
        jobs = {
            number: FakeJob(
                **fields | {key: [FakeRecord(**run) for run in fields[key]] for key in ("runs", "components")}
            )
            for number, fields in data["jobs"].items()
        }
        old = {number: [FakeRecord(**run) for run in runs] for number, runs in data["old"].items()}
        return cls(data["now"], data["next_id"], jobs, old, Faults(**data["faults"]), dict(data["calls"]))

    # -------------------------------------------------------------- parts

    def _one(self, number: str, state: str) -> FakeJob:
        job = self.jobs[number]
        if job.state != state:
            message = f"job {number} is {job.state}, not {state}"
            raise ValueError(message)
        return job

    def _due(self, job: FakeJob) -> tuple[float, str] | None:
        if job.state != "RUNNING" or job.limit is None or job.started_at is None:
            return None
        return job.started_at + job.limit + job.suspended, job.id

    def _consider(self, job: FakeJob) -> None:
        """One waiting job: may it start, must it wait, can it never start?"""
        verdict = self._verdict(job.dependency)
        if verdict == "never":
            job.reason = "DependencyNeverSatisfied"
            if self.faults.kills_invalid and job.options.get("kill_invalid") == "yes":
                self.end(job.id, "CANCELLED", 0)
        elif verdict == "waits":
            job.reason = "Dependency"
        elif self.faults.starts_jobs and self._running() < self.faults.slots and self._shown(job):
            self.start(job.id)
        else:
            job.reason = "Resources"

    def _verdict(self, dependency: str) -> str:
        verdicts = [self._one_verdict(part) for part in dependency.split(",") if part]
        for verdict in ("never", "waits"):
            if verdict in verdicts:
                return verdict
        return "may"

    def _one_verdict(self, part: str) -> str:
        """In Slurm every end but COMPLETED satisfies afternotok, a cancelled job's too."""
        kind, *numbers = part.split(":")
        jobs: Sequence[FakeJob] = [self.jobs[number] for number in numbers if number in self.jobs]
        if kind == "after":
            return "waits" if any(job.state == "PENDING" for job in jobs) else "may"
        if any(job.active for job in jobs):
            return "waits"
        wrong = {"afternotok": "COMPLETED"}.get(kind)
        if kind == "afterok":
            return "never" if any(job.state != "COMPLETED" for job in jobs if self._known(job)) else "may"
        return "never" if any(job.state == wrong for job in jobs if self._known(job)) else "may"

    def _known(self, job: FakeJob) -> bool:
        return job.active or job.ended_at is None or self.now - job.ended_at < self.faults.remembers

    def _shown(self, job: FakeJob) -> bool:
        return self.now >= job.submitted_at + self.faults.hidden_for

    def _running(self) -> int:
        return sum(job.state == "RUNNING" for job in self.jobs.values())
