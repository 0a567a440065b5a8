"""The files of jobs as an executor keeps them: what the service asks for, and this machine's answer.

A run sees its job's folder at one path and the service reads it at another one, or through a network. So
nobody but a storage turns a run into a path, and a path that a run sees is text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol, runtime_checkable

from nemo_helix_server.jobs.model import CheckpointRow
from nemo_helix_server.storage import checkpoints, run_files
from nemo_helix_server.storage.job_folders import JobDirectory, JobStorage
from nemo_helix_server.storage.log_parts import LocalLog, RunLog
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.trainer_files import LocalTrainerFiles, TrainerFiles
from nemo_trainer.contract import allocation


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPaths:
    """Absolute paths as a run sees them, on whatever machine it runs."""

    folder: str
    """The run's own: its claim, its end, its log."""
    config_folder: str
    config_file: str
    control_file: str
    allocation_file: str
    scratch: str
    """Gone with the run."""
    storage: str
    """What all steps and attempts of the job share; its working directory."""
    trainer: str
    """Metrics, progress and checkpoints of the step."""

    @classmethod
    def below(cls, job: str | PurePath, run: StepRun) -> StepPaths:
        """Those of a run whose job lies at a path there, with the names that jobs have on this machine."""
        names = JobDirectory(Path(job))
        folder = names.run_folder(run.token)
        config = folder / run_files.CONFIG_FOLDER
        return cls(
            folder=str(folder),
            config_folder=str(config),
            config_file=str(config / run_files.CONFIG_FILE),
            control_file=str(folder / run_files.CONTROL),
            allocation_file=str(folder / allocation.FILE),
            scratch=str(names.scratch / run.token),
            storage=str(names.storage),
            trainer=str(names.trainer(run.step)),
        )


class RunStorage(Protocol):
    """The files of the runs of one executor; the service has no other way to them.

    Questions are asked by the controller's thread, often and about many runs, so an answer that needs a
    network comes from what was seen last. What changes files (`prepare`, `pin`, `reclaim`, …) may take long.
    `OSError` from any of them is tried again.
    """

    def paths(self, run: StepRun) -> StepPaths:
        """Where a run finds its files; known without a look."""
        ...

    def prepare(self, run: StepRun, config: Any) -> None:
        """Make everything that a start finds, its configuration among it; fine when some of it is there."""
        ...

    def trainer(self, run: StepRun) -> TrainerFiles:
        """What the training of the run's step has written; no file is opened yet."""
        ...

    def log(self, run: StepRun) -> RunLog:
        """The run's log; no file is opened yet."""
        ...

    def free_bytes(self, run: StepRun) -> int | None:
        """What a run may still write to its job's storage; `None`: not known."""
        ...

    def checkpoint_path(self, run: StepRun, checkpoint: CheckpointRow) -> str | None:
        """Where a run finds a checkpoint of its job, or its pinned copy; `None`: neither is left.

        Asked before each call of the executor's `start`, which has to bring a copy there that is elsewhere.
        """
        ...

    def hold(self, checkpoint: CheckpointRow) -> bool:
        """Keep a checkpoint from being pruned by its trainer; false when it is gone."""
        ...

    def pin(self, checkpoint: CheckpointRow) -> str:
        """Copy a checkpoint out of its job's storage; the copy's place below the storage's root.

        Raises `checkpoints.PinError`. Making it again is fine.
        """
        ...

    def unpin(self, checkpoint: CheckpointRow) -> None:
        """Remove the pinned copy."""
        ...

    def drop_scratch(self, run: StepRun) -> None:
        """The run is over: its scratch folder may go."""
        ...

    def size(self, workspace: str, job_id: str) -> int:
        """Bytes that a job's storage takes."""
        ...

    def reclaim(self, workspace: str, job_id: str) -> None:
        """Put a job's storage and scratch out of reach; fine when they are gone.

        The service's data directory is asked last, so what it still has shows that this is not done yet.
        Deleting them after that is the storage's own affair, here and in `discard`.
        """
        ...

    def discard(self, workspace: str, job_id: str) -> None:
        """Put everything of a job out of reach; fine when it is gone."""
        ...


@runtime_checkable
class HandsOver(Protocol):
    """A storage elsewhere whose trainer paths can be continued by another executor."""

    def hand_over(self, run: StepRun) -> None:
        """Have the trainer path of a run's step in the service's data directory, and there alone.

        Fine when it is there. `OSError` says why it is not yet, and asking again goes on with it.
        """
        ...


class LocalRunStorage:
    """The data directory of a service, on this machine; see `RunStorage`."""

    def __init__(self, jobs: JobStorage) -> None:
        self.jobs = jobs

    def paths(self, run: StepRun) -> StepPaths:
        """See the protocol: a run on this machine sees what the service sees."""
        return StepPaths.below(self.jobs.of_run(run).folder, run)

    def prepare(self, run: StepRun, config: Any) -> None:
        """See the protocol."""
        self.jobs.prepare_run(run, config)

    def trainer(self, run: StepRun) -> TrainerFiles:
        """See the protocol."""
        job = self.jobs.of_run(run)
        return LocalTrainerFiles(job.trainer(run.step), job.storage)

    def log(self, run: StepRun) -> RunLog:
        """See the protocol."""
        return LocalLog(self.jobs.run_folder(run))

    def free_bytes(self, run: StepRun) -> int | None:  # noqa: ARG002 - the protocol's
        """See the protocol."""
        return self.jobs.free_bytes()

    def checkpoint_path(self, run: StepRun, checkpoint: CheckpointRow) -> str | None:  # noqa: ARG002 - the protocol's
        """See the protocol."""
        folder = checkpoints.folder_of(self.jobs, checkpoint)
        return None if folder is None else str(folder)

    def hold(self, checkpoint: CheckpointRow) -> bool:
        """See the protocol."""
        return checkpoints.hold(self.jobs, checkpoint)

    def pin(self, checkpoint: CheckpointRow) -> str:
        """See the protocol."""
        return checkpoints.pin(self.jobs, checkpoint)

    def unpin(self, checkpoint: CheckpointRow) -> None:
        """See the protocol."""
        checkpoints.unpin(self.jobs, checkpoint)

    def drop_scratch(self, run: StepRun) -> None:
        """See the protocol."""
        self.jobs.drop_scratch(self.jobs.of_run(run), run.token)

    def size(self, workspace: str, job_id: str) -> int:
        """See the protocol."""
        return self.jobs.size(self.jobs.paths(workspace, job_id))

    def reclaim(self, workspace: str, job_id: str) -> None:
        """See the protocol."""
        self.jobs.reclaim(self.jobs.paths(workspace, job_id))

    def discard(self, workspace: str, job_id: str) -> None:
        """See the protocol."""
        self.jobs.discard(self.jobs.paths(workspace, job_id).folder)
