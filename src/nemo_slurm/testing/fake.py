"""The fake cluster as a `Cluster`, with the ways to move its clock and to let things happen to its jobs."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nemo_slurm import commands
from nemo_slurm.cluster import SETTLE_SECONDS, Cluster
from nemo_slurm.hosts import Completed, LocalHost
from nemo_slurm.testing.bash_jobs import BashJobs
from nemo_slurm.testing.jobs import FakeJob, FakeRecord, Faults
from nemo_slurm.testing.listings import ProgramCall
from nemo_slurm.testing.model import ClusterModel
from nemo_slurm.testing.on_path import install
from nemo_slurm.testing.programs import answer
from nemo_slurm.testing.state import StoredCluster


class FakeCalls:
    """Calls the fake's programs in this process."""

    def __init__(self, state: StoredCluster) -> None:
        self._state = state

    def call(
        self,
        argvs: Sequence[Sequence[str]],
        *,
        folder: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> list[Completed]:
        """See `nemo_slurm.calls.Calls.call`."""
        del timeout
        with self._state.open() as model:
            return [self._one(model, argv, folder or os.getcwd(), env or {}) for argv in argvs]

    def _one(
        self, model: ClusterModel, argv: Sequence[str], folder: str, env: Mapping[str, str]
    ) -> Completed:
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))
        }
        given = clean | dict(env) if argv[0] == "sbatch" else commands.ENVIRONMENT
        return answer(model, ProgramCall(argv[0], argv[1:], given, folder))


class FakeCluster(Cluster):
    """A cluster that is not there.

    Without a folder it lives in this process alone. With one, `path` is a folder of programs for a PATH and
    `bash` runs the scripts of jobs; the folder's name may hold anything. `Cluster` calls move the clock where
    a real one would wait.
    """

    def __init__(self, folder: Path | None = None, faults: Faults | None = None) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._state = StoredCluster(folder / "state.json" if folder else None)
        self._folder = folder
        self._bash: BashJobs | None = None
        super().__init__(
            LocalHost(), calls=FakeCalls(self._state), settle=SETTLE_SECONDS, sleep=self.move, now=self.now
        )
        if folder is not None:
            install(folder)
        if faults is not None:
            self.set(faults)

    # -------------------------------------------------------------- looking

    @property
    def path(self) -> Path:
        """The folder of the programs. Only of a cluster with a folder."""
        assert self._folder is not None, "a fake cluster without a folder has no programs"
        return self._folder / "bin"

    @property
    def bash(self) -> BashJobs:
        """Runs scripts of jobs as real processes. Only of a cluster with a folder."""
        if self._bash is None:
            self._bash = BashJobs(self._state.open, self.path)
        return self._bash

    def now(self) -> float:
        """The cluster's time, UTC seconds."""
        with self._state.open() as model:
            return model.now

    def job(self, number: str) -> FakeJob:
        """The truth about one job."""
        with self._state.open() as model:
            return copy.deepcopy(model.jobs[number])

    def jobs(self) -> list[FakeJob]:
        """The truth about all jobs, the oldest first."""
        with self._state.open() as model:
            return copy.deepcopy(sorted(model.jobs.values(), key=lambda job: int(job.id)))

    def states(self) -> dict[str, tuple[str, int]]:
        """State and restart count of each job, the oldest first."""
        with self._state.open() as model:
            return {number: (job.state, job.restarts) for number, job in model.jobs.items()}

    def calls(self) -> dict[str, int]:
        """How often each program was called, from anywhere."""
        with self._state.open() as model:
            return dict(model.calls)

    # -------------------------------------------------------------- what happens

    def set(self, faults: Faults) -> None:
        """Replace everything that is wrong with the cluster."""
        with self._state.open() as model:
            model.faults = faults
            model.settle()

    @contextlib.contextmanager
    def faults(self) -> Iterator[Faults]:
        """Change what is wrong with the cluster."""
        with self._state.open() as model:
            yield model.faults
            model.settle()

    def move(self, seconds: float) -> None:
        """Let time pass; time limits are kept, jobs start."""
        with self._state.open() as model:
            model.move(seconds)

    def start(self, number: str) -> None:
        """Start a waiting job now, whatever `Faults.starts_jobs` says."""
        with self._state.open() as model:
            model.start(number)

    def end(
        self, number: str, state: str = "COMPLETED", status: int | None = None, *, author: int | None = None
    ) -> None:
        """End a job in a state: by its own doing, or by the scheduler's (TIMEOUT, PREEMPTED, …).

        ``author``: the user who cancelled it.
        """
        with self._state.open() as model:
            model.end(number, state, status, author)

    def requeue(self, number: str, state: str = "REQUEUED") -> None:
        """Put a running job back into the queue, for ``REQUEUED``, ``PREEMPTED`` or ``NODE_FAIL``."""
        with self._state.open() as model:
            model.requeue(number, state)

    def suspend(self, number: str, seconds: float) -> None:
        """Halt a running job for so long; time passes."""
        with self._state.open() as model:
            model.suspend(number, seconds)

    def forget(self, number: str) -> None:
        """Remove a job from the queue without a trace there, as an administrator may."""
        with self._state.open() as model:
            model.end(number, "CANCELLED", author=0)
            model.jobs[number].ended_at = model.now - model.faults.remembers

    def remember_older(
        self,
        number: str,
        state: str,
        *,
        elapsed: int = 60,
        ago: float = 90 * 86_400,
        name: str = "old",
        comment: str = "",
        uid: int = 4242,
        author: int | None = None,
    ) -> None:
        """Let accounting have a record of an older job with this number: a stranger's, by default."""
        with self._state.open() as model:
            started = model.now - ago
            run = FakeRecord(state, 0, 0, started - 1, started, started + elapsed, author=author)
            run.name, run.comment, run.uid = name, comment, uid
            model.old.setdefault(number, []).append(run)

    def change(self, number: str, **fields: object) -> None:
        """Let a job be another than was queued: its ``name``, ``comment``, ``uid`` and so on."""
        with self._state.open() as model:
            for name, value in fields.items():
                setattr(model.jobs[number], name, value)

    def reuse(self, number: str) -> None:
        """Let the next job have this number."""
        with self._state.open() as model:
            model.next_id = int(number)
