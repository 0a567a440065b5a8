"""One way to drive a cluster in a contract test: the fake, its programs with real bash, and the real one."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest
from tests.slurm.lab import WAITS, RealSlurm

from nemo_slurm.cluster import Cluster, JobLook, SlurmJob, Submitted
from nemo_slurm.hosts import LocalHost
from nemo_slurm.testing import FakeCluster

LOSES_REPLY = """\
#!/bin/bash
{sbatch} "$@" >/dev/null 2>&1
echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
exit 1
"""


class Stage(Protocol):
    """A cluster and the means to let things happen on it."""

    cluster: Cluster
    prefix: str

    def submit(self, token: str, options: Sequence[str] = (), *, again: bool = False) -> Submitted:
        """Submit a job that waits to be told how to end; ``token`` follows the prefix."""
        ...

    def finish(self, job: SlurmJob, status: int) -> None: ...
    def time_out(self, job: SlurmJob) -> None: ...
    def requeue(self, job: SlurmJob) -> None: ...
    def lose_reply(self) -> None: ...
    def part_from_controller(self) -> None: ...
    def part_from_accounting(self) -> None: ...
    def wait(self, job: SlurmJob, *names: str) -> JobLook: ...
    def settled(self, job: SlurmJob) -> JobLook: ...
    def has_started(self, job: SlurmJob) -> bool: ...
    def later(self) -> None:
        """Let a moment pass in which everything that is due happens."""
        ...


@dataclass
class _Common(ABC):
    cluster: Cluster
    folder: Path
    prefix: str = "run-1/"
    tokens: dict[str, str] = field(default_factory=dict)

    def submit(self, token: str, options: Sequence[str] = (), *, again: bool = False) -> Submitted:
        script = self.folder / "a job's.sh"
        script.write_text(WAITS.format(head="#SBATCH --job-name=gym-x"))
        flag = f"{self.folder}/{token.replace('/', '-')}"
        submitted = self.cluster.submit(
            str(script),
            [flag],
            token=self.prefix + token,
            folder=str(self.folder),
            options=options,
            again=again,
        )
        self.tokens[submitted.job.id] = flag
        return submitted

    def wait(self, job: SlurmJob, *names: str) -> JobLook:
        return self._until(job, lambda seen: bool(seen.state and seen.state.name in names))

    def settled(self, job: SlurmJob) -> JobLook:
        return self._until(job, lambda seen: seen.settled)

    def _until(self, job: SlurmJob, good) -> JobLook:  # type: ignore[no-untyped-def]
        for _ in range(200):
            seen = self.cluster.observe([job])[job]
            if good(seen):
                return seen
            self.later()
        raise AssertionError(f"waited in vain: {seen}")

    @abstractmethod
    def later(self) -> None: ...


@dataclass
class InProcess(_Common):
    """The fake without any process: jobs end because the test says so."""

    @property
    def fake(self) -> FakeCluster:
        assert isinstance(self.cluster, FakeCluster)
        return self.cluster

    def finish(self, job: SlurmJob, status: int) -> None:
        self.fake.end(job.id, "FAILED" if status else "COMPLETED", status)

    def time_out(self, job: SlurmJob) -> None:
        self.fake.end(job.id, "TIMEOUT")

    def requeue(self, job: SlurmJob) -> None:
        self.fake.requeue(job.id)

    def lose_reply(self) -> None:
        with self.fake.faults() as faults:
            faults.lost_replies = 1

    def part_from_controller(self) -> None:
        with self.fake.faults() as faults:
            faults.controller_down = True

    def part_from_accounting(self) -> None:
        with self.fake.faults() as faults:
            faults.accounting = "down"

    def has_started(self, job: SlurmJob) -> bool:
        return self.fake.job(job.id).started_at is not None

    def later(self) -> None:
        self.fake.move(1)


@dataclass
class Programs(InProcess):
    """The fake's programs on the PATH and real bash: the tested `Cluster` is the one for real clusters."""

    model: FakeCluster | None = None

    @property
    def fake(self) -> FakeCluster:
        assert self.model is not None
        return self.model

    def finish(self, job: SlurmJob, status: int) -> None:
        Path(self.tokens[job.id]).write_text(str(status))

    def later(self) -> None:
        self.fake.move(1)
        self.fake.bash.step(grace=0.2)
        time.sleep(0.02)


@dataclass
class Real(_Common):
    """The real Slurm, here or over ssh."""

    slurm: RealSlurm | None = None
    patch: pytest.MonkeyPatch | None = None

    @property
    def real(self) -> RealSlurm:
        assert self.slurm is not None
        return self.slurm

    def finish(self, job: SlurmJob, status: int) -> None:
        Path(self.tokens[job.id]).write_text(str(status))

    def time_out(self, job: SlurmJob) -> None:
        self.real.control("update", f"JobId={job.id}", "TimeLimit=0")

    def requeue(self, job: SlurmJob) -> None:
        self.real.control("requeue", job.id)

    def lose_reply(self) -> None:
        assert self.patch is not None
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "sbatch").write_text(LOSES_REPLY.format(sbatch="/usr/bin/sbatch"))
        (folder / "sbatch").chmod(0o755)
        self.patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def part_from_controller(self) -> None:
        assert self.patch is not None
        self.real.client(self.patch, SlurmctldPort="17098", MessageTimeout="1")

    def part_from_accounting(self) -> None:
        assert self.patch is not None
        self.real.client(self.patch, AccountingStoragePort="17099")

    def has_started(self, job: SlurmJob) -> bool:
        return Path(f"{self.tokens[job.id]}.log").exists()

    def later(self) -> None:
        time.sleep(0.1)


def in_process(folder: Path) -> InProcess:
    """The fake in this process."""
    return InProcess(FakeCluster(), folder)


def programs(folder: Path, patch: pytest.MonkeyPatch) -> Programs:
    """The fake's programs, in a folder with an odd name."""
    fake = FakeCluster(folder / "fake 'cluster\n")
    patch.setenv("PATH", f"{fake.path}:{os.environ['PATH']}")
    return Programs(Cluster(LocalHost()), folder, model=fake)
