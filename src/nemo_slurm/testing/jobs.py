"""Jobs of the fake cluster, and what may be wrong with it."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass, field

from nemo_slurm.observing import has_ended
from nemo_slurm.states import table

START = 1_800_000_000.0
"""When time begins: 15 January 2027, 08:00 UTC."""

KILLED = {
    "TIMEOUT": (0, 15),
    "PREEMPTED": (0, 15),
    "CANCELLED": (0, 15),
    "NODE_FAIL": (0, 0),
    "OUT_OF_MEMORY": (0, 125),
}
"""Exit status and signal that go with a state of the scheduler's own making."""


@dataclass
class Faults:
    """What is wrong with the cluster. Everything can be changed at any time."""

    controller_down: bool = False
    """Every command but ``sacct`` fails."""
    accounting: str = "on"
    """``on``, ``off`` (none is kept) or ``down`` (it does not answer)."""
    accounting_lag: float = 0.0
    """Seconds until accounting shows a job, and until it shows a job's end."""
    lag_shows: str = "RUNNING"
    """What accounting shows of an ended job meanwhile: ``half`` for a half written end, empty for nothing."""
    invisible: list[str] = field(default_factory=list)
    """Ids that accounting never shows."""
    lost_replies: int = 0
    """So many of the next submissions are accepted without the submitter hearing of it."""
    lost_requests: int = 0
    """So many of the next submissions fail in the same words without having been accepted."""
    hidden_for: float = 0.0
    """Seconds until a submitted job is seen in the queue."""
    submit_limit: int | None = None
    """Jobs that may wait or run at a time."""
    refuses_kill_option: bool = False
    """``--kill-on-invalid-dep`` is an error."""
    kills_invalid: bool = True
    """Whether a job with that option is cancelled once its dependency cannot be satisfied, or waits."""
    refuses_in_jobs: bool = False
    """``sbatch`` from within a job is refused."""
    unknown_dependency: str = "satisfied"
    """``satisfied`` as in Slurm 22.05, ``refused`` as in 24.11."""
    keeps_comments: bool = True
    """Whether accounting keeps the comments of jobs."""
    doubles_records: bool = False
    """Accounting shows each run of a job twice, the first time without its end."""
    remembers: float = 300.0
    """Seconds for which the controller knows an ended job."""
    banner: str = ""
    """Printed by every program before anything else."""
    cluster_name: str = ""
    """Printed behind ids: ``1000;name``."""
    cuts_states: bool = False
    """States are cut short as in columns: ``CANCELLED+``."""
    slots: int = 1000
    """Jobs that run at a time."""
    starts_jobs: bool = True
    """Whether jobs that can start do so as soon as time or the queue moves."""


@dataclass
class FakeRecord:
    """A run of a job that is over, as accounting keeps it."""

    state: str
    status: int
    signal: int
    submitted_at: float
    started_at: float | None
    ended_at: float
    suspended: float = 0.0
    author: int | None = None
    half_written: bool = False
    """The state alone, without the moment of the end and the exit status."""
    name: str | None = None
    """Of a job that had this number before; `None`: as the job of that number now."""
    comment: str | None = None
    uid: int | None = None

    @property
    def elapsed(self) -> int:
        """Seconds of allocation, without those in which the job was suspended."""
        return int(self.ended_at - self.started_at - self.suspended) if self.started_at is not None else 0


@dataclass
class FakeJob:
    """One job."""

    id: str
    name: str
    comment: str
    text: str
    """The script, as it was when it was submitted."""
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    options: dict[str, str]
    submitted_at: float
    user: str = field(default_factory=getpass.getuser)
    uid: int = field(default_factory=os.getuid)
    state: str = "PENDING"
    reason: str = "None"
    status: int = 0
    signal: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    suspended: float = 0.0
    restarts: int = 0
    author: int | None = None
    runs: list[FakeRecord] = field(default_factory=list)
    """Earlier runs under this number."""
    components: list[FakeRecord] = field(default_factory=list)
    """Of a heterogeneous job: how its further components ended."""

    @property
    def limit(self) -> float | None:
        """Seconds of its time limit."""
        return float(self.options["limit"]) if "limit" in self.options else None

    @property
    def dependency(self) -> str:
        """As it was asked for."""
        return self.options.get("dependency", "")

    @property
    def active(self) -> bool:
        """Neither ended nor forgotten."""
        return not ended(self.state)

    def as_run(self) -> FakeRecord:
        """The run that just ended."""
        end = self.ended_at if self.ended_at is not None else self.submitted_at
        return FakeRecord(
            self.state,
            self.status,
            self.signal,
            self.submitted_at,
            self.started_at,
            end,
            self.suspended,
            self.author,
        )


def ended(state: str) -> bool:
    """Whether a state is an end."""
    return state in table() and has_ended(table()[state])
