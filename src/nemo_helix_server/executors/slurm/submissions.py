"""What the service knows of a start that it handed to a scheduler: a file in the start's folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.slurm.connection import ClusterAddress
from nemo_runs.durable.files import replace_file
from nemo_slurm.records import SlurmJob

NAME = "cluster.json"


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
    waits_for: str = ""
    """Why the scheduler takes it not yet."""
    given_up: bool = False
    """It was ended before its command ran, and never will run."""
    results_here: bool = False
    """What it has produced lies at the service too."""
    over: bool = False
    """Nothing more is to be learnt: the next look leaves it out."""

    @property
    def job(self) -> SlurmJob | None:
        """The job, with everything that proves it."""
        if self.job_id is None:
            return None
        return SlurmJob(
            self.job_id,
            self.cluster,
            self.submitted_at if self.submitted_at is not None else self.asked_at,
            token=self.token,
            user=self.user,
            name=self.name,
        )

    def accepted(self, job: SlurmJob) -> ClusterSubmission:
        """The same with the job that came of it."""
        return replace(self, job_id=job.id, cluster=job.cluster, submitted_at=job.submitted_at, waits_for="")

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
