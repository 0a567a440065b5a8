"""What the service knows of starts that it handed to a scheduler: a file in each start's folder.

Of starts that may queue the next one themselves it also keeps a list, until nothing can follow them any more,
and of those that are over, until what they have left on the cluster is removed.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.slurm import job_script
from nemo_helix_server.executors.slurm.connection import ClusterAddress
from nemo_helix_server.executors.slurm.on_cluster import folders
from nemo_helix_server.storage.run_files import StepRun, next_token
from nemo_runs.durable.files import replace_file
from nemo_runs.errors import DiskFullError
from nemo_slurm.records import SlurmJob

NAME = "cluster.json"
_FALLBACK = "fallback.txt"
_LONGEST_CHAIN = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSubmission:
    """One start; it is written before ``sbatch`` is called, so that a lost reply is looked for."""

    address: ClusterAddress
    token: str
    name: str
    """The job's name in the queue."""
    user: int | None
    """Number of the user who submits there."""
    asked_at: float
    """When it was first handed over, in seconds since the epoch."""
    job_id: str | None = None
    """The scheduler's number; `None`: no reply has been heard yet, or it waits for a limit."""
    cluster: str | None = None
    submitted_at: float | None = None
    adopted: bool = False
    """Its job was there already, queued by an allocation, perhaps long before this service asked for it."""
    waits_for: str = ""
    """Why the scheduler takes it not yet."""
    given_up: bool = False
    """It was ended before its command ran, and never will run."""
    asked: bool = True
    """Whether ``sbatch`` may have been called for it; one that was given up before has left no job."""
    results_here: bool = False
    """What it has produced lies at the service too."""
    tidied: bool = False
    """It is over, and its secrets and its scratch folder on the cluster are removed."""

    @property
    def job(self) -> SlurmJob | None:
        """The job, with everything that proves it."""
        if self.job_id is None:
            return None
        earliest = None if self.adopted else self.asked_at
        return SlurmJob(
            self.job_id,
            self.cluster,
            self.submitted_at if self.submitted_at is not None else earliest,
            token=self.token,
            user=self.user,
            name=self.name,
            name_proves=bool(self.own_name),
        )

    @property
    def own_name(self) -> str:
        """The job's name where no other job has it; empty for starts of versions that named all alike."""
        return self.name if self.name.endswith(f"-{folders.name_mark(self.token)}") else ""

    def follower(self, run: StepRun, token: str, job_id: str) -> SlurmJob:
        """The job of a start that an allocation has queued after this one of ``run``."""
        own = bool(self.own_name)  # an allocation names its follower as it is named itself
        name = job_script.job_name(run.job_id, run.step, token) if own else self.name
        return SlurmJob(job_id, None, self.asked_at, token=token, user=self.user, name=name, name_proves=own)

    def accepted(self, job: SlurmJob, *, adopted: bool = False) -> ClusterSubmission:
        """The same with the job that came of it, by the name in the queue; no empty one is compared."""
        return replace(
            self,
            name=self.name if job.name is None else job.name,
            job_id=job.id,
            cluster=job.cluster,
            submitted_at=job.submitted_at,
            adopted=adopted,
            waits_for="",
        )

    def save(self, folder: Path) -> None:
        """Put it there, durably."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = json.dumps({**asdict(self), "address": self.address.to_json()}).encode() + b"\n"
        replace_file(folder / NAME, data, mode=0o600)


def read(folder: Path) -> ClusterSubmission | None:
    """The record of a start; `None` when it was never handed to a scheduler, or cannot be read."""
    try:
        value: dict[str, Any] = json.loads((folder / NAME).read_bytes())
        known = {key: value[key] for key in ClusterSubmission.__dataclass_fields__ if key in value}
        return ClusterSubmission(**{**known, "address": ClusterAddress.from_json(value["address"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def note_fallback(folder: Path, sentence: str) -> None:
    """Keep that a request could not reach a start, and what was done in its place."""
    with contextlib.suppress(OSError, DiskFullError):  # what was done counts, and not that it is said
        replace_file(folder / _FALLBACK, sentence.encode(), mode=0o600)


def read_fallback(folder: Path) -> str:
    """That sentence; empty where every request has reached the start."""
    try:
        return (folder / _FALLBACK).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True, slots=True)
class RunList:
    """Some starts, a file each, in a folder of the service."""

    folder: Path

    def add(self, run: StepRun) -> None:
        """Remember a start, durably."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.folder / run.token, json.dumps(run._asdict()).encode(), mode=0o600)

    def runs(self) -> list[StepRun]:
        """All of them."""
        found = []
        for path in sorted(self.folder.glob("task-*")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                found.append(StepRun(**json.loads(path.read_bytes())))
        return found

    def drop(self, run: StepRun) -> None:
        """Forget a start; fine when it is not there."""
        (self.folder / run.token).unlink(missing_ok=True)


class OpenChains(RunList):
    """The starts after which something may be queued."""

    def end(self, run: StepRun) -> None:
        """Nothing can follow a start any more, nor those that it follows itself."""
        for one in self.up_to(run):
            self.drop(one)

    def up_to(self, run: StepRun) -> list[StepRun]:
        """A start, if it is here, and those that it follows itself."""
        found = []
        for one in self.runs():
            same = (one.job_id, one.attempt_id, one.step) == (run.job_id, run.attempt_id, run.step)
            if one.token == run.token or (same and leads_to(one.token, run.token)):
                found.append(one)
        return found


def leads_to(token: str, later: str) -> bool:
    """Whether one start comes of another by nothing but lost places."""
    for _ in range(_LONGEST_CHAIN):
        token = next_token(token)
        if token == later:
            return True
    return False
